#!/bin/sh
# Prints a Chromium for `make test-ui`: the one that is named or installed; without one, it installs one.
# Usage: install_chromium.sh PYTHON, the interpreter that has playwright
set -eu

for name in "${EBBING_TEST_BROWSER:-}" chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && found=$(command -v "$name"); then
        echo "$found"
        exit 0
    fi
done

echo "Installing Chromium, once" >&2
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    if apt-get update >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium fonts-dejavu-core >&2
    then
        command -v chromium
        exit 0
    fi
fi
if "$1" -m playwright install chromium >&2; then
    "$1" -c 'from playwright.sync_api import sync_playwright as s
with s() as p: print(p.chromium.executable_path)'
    exit 0
fi
echo "No Chromium could be installed: install one, and name it in EBBING_TEST_BROWSER" >&2
exit 1
