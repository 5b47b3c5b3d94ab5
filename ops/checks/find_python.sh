#!/bin/sh
# Prints a Python 3.11 or 3.12 that really runs and can make virtual environments.
# A name on PATH isn't enough: version managers leave stubs there that fail when called.
fits='import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))'
IFS=:
for name in python3.12 python3.11 python3 python; do
    for folder in $PATH; do
        if [ -x "$folder/$name" ] && "$folder/$name" -c "$fits" >/dev/null 2>&1; then
            printf '%s\n' "$folder/$name"
            exit 0
        fi
    done
done
echo "Ebbing needs Python 3.11 or 3.12 with its venv module, and none on PATH runs." >&2
echo "Install one (Debian, Ubuntu: apt install python3.11 python3.11-venv) or name it: make venv PYTHON=/path/to/python3.12" >&2
exit 1
