"""The page `/docs`: Swagger UI, served by this process without loading files from other sites.

The package `fastapi-swagger` contains the files of Swagger UI. Its style sheet contains images as `data:` URLs, which
the pages' Content-Security-Policy forbids; they are served as files instead.
"""

from __future__ import annotations

import base64
import re
from functools import cache
from importlib import resources
from typing import Final
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Response

from app.api.http.page_headers import HEADERS
from app.errors import require_found

router = APIRouter(include_in_schema=False)

_SWAGGER: Final = "fastapi_swagger.resources"
_TYPES: Final = {
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
}
_DATA_URL: Final = re.compile(
    r"""url\(data:image/(?P<type>\w+);base64,(?P<data>[^)]*)\)"""
    r"""|url\("data:image/svg\+xml(?:;charset=utf-8)?,(?P<svg>(?:[^"\\]|\\.)*)"\)"""
)
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ebbing API</title>
<link rel="icon" href="ops/static/icon.svg">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/docs.css">
</head>
<body>
<div id="reference"></div>
<noscript>This page needs JavaScript. The description is in <a href="openapi.json">openapi.json</a>.</noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/docs.js"></script>
</body>
</html>
"""


@router.get("/docs")
async def show_reference() -> Response:
    """Return the page, whose scripts fetch `openapi.json`."""
    return Response(_PAGE, media_type="text/html", headers=HEADERS)


@router.get("/docs/{name}")
def fetch_asset(name: str) -> Response:
    """Return a file of the page."""
    media_type, content = require_found(_assets().get(name), "file")
    return Response(content, media_type=media_type, headers=HEADERS | {"cache-control": "no-cache"})


@cache
def _assets() -> dict[str, tuple[str, bytes]]:
    """Return the media type and content of each file of the page."""
    swagger = resources.files(_SWAGGER)
    own = resources.files(__package__) / "static"
    style, images = _extract_images((swagger / "swagger-ui.css").read_text())
    files = {
        "swagger-ui-bundle.js": (swagger / "swagger-ui-bundle.js").read_bytes(),
        "swagger-ui.css": style.encode(),
        **{file.name: file.read_bytes() for file in own.iterdir()},
        **images,
    }
    return {name: (_TYPES[name.rpartition(".")[2]], content) for name, content in files.items()}


def _extract_images(style: str) -> tuple[str, dict[str, bytes]]:
    """Return a style sheet with names of files in place of `data:` URLs, and the files."""
    images: dict[str, bytes] = {}

    def extract(found: re.Match[str]) -> str:
        name = f"image-{len(images)}.{found['type'] or 'svg'}"
        drawing = found["svg"]
        images[name] = (
            base64.b64decode(found["data"]) if drawing is None else unquote_to_bytes(drawing.replace("\\", ""))
        )
        return f"url({name})"

    return _DATA_URL.sub(extract, style), images
