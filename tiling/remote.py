"""GDAL's options for files of strangers; rasters on servers: how long to wait, and what their errors mean."""

from __future__ import annotations

import os
import re

import rasterio

from tiling.errors import SceneDamaged, SceneNotFound, SceneUnreachable, SceneUnreadable, TilingError

# What files of strangers must not make GDAL do, whichever its version and whatever the environment says: run
# code, read raw bytes of any file as pixels, send a local file as the headers of a request.
_PINNED = {
    "GDAL_VRT_ENABLE_PYTHON": "NO",
    "GDAL_VRT_ENABLE_RAWRASTERBAND": "NO",
    "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": "SIBLING_OR_CHILD_OF_VRT_PATH",
    "CPL_VSIL_CURL_HEADER_FILE_KVP_ENABLED": "NO",
}
# A server that is silent for longer is given up; GDAL itself would wait for ever.
_PATIENCE = {
    "GDAL_HTTP_CONNECTTIMEOUT": "20",
    "GDAL_HTTP_LOW_SPEED_TIME": "60",
    "GDAL_HTTP_LOW_SPEED_LIMIT": "1",
    "GDAL_HTTP_MAX_RETRY": "3",
    "GDAL_HTTP_RETRY_DELAY": "1",
}
# No listing of the folder and no files beside the raster: they are a stranger's, and any driver opens them.
_ALONE = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}
# Many addresses are signed for reading alone, not for asking how large the file is.
_SIGNED = {"CPL_VSIL_CURL_USE_HEAD": "NO"}
_MISSING = ("ObjectNotFound", "BucketNotFound")
_REFUSED = ("AccessDenied", "InvalidCredentials", "SignatureDoesNotMatch")


def safe_environment(source: str = "") -> rasterio.Env:
    """Return the GDAL options to read strangers' files under; they end with the ``with`` block.

    ``source`` is what GDAL opens there, see :class:`SceneInfo`. On a server and in an archive it will not
    look for masks, overviews and the like beside it: those of plain files are checked, those are not.
    """
    options = _PINNED | {"GDAL_NUM_THREADS": "1"}
    if source.startswith("/vsi"):
        # How GDAL waits and asks is the user's if they say so.
        wishes = _PATIENCE | (_SIGNED if "?" in source else {})
        set_before = rasterio.env.getenv() if rasterio.env.hasenv() else {}
        configured = {name.upper() for name in (*os.environ, *set_before)}
        options |= _ALONE | {name: value for name, value in wishes.items() if name not in configured}
    return rasterio.Env(**options)


def network_error(shown: str, error: BaseException) -> TilingError | None:
    """Return what an error of GDAL says of the server, in our words; None if it is about something else.

    GDAL's own words are not passed on: they may hold the address with its signature.
    """
    names, text = [], ""
    cause: BaseException | None = error
    while cause is not None:
        names.append(type(cause).__name__)
        text += f"{cause}\n"
        cause = cause.__cause__ or cause.__context__
    status = re.search(r"HTTP (?:response|error) code\s*:\s*(\d{3})", text)
    code = int(status[1]) if status else 0
    if code in (404, 410) or any(missing in name for name in names for missing in _MISSING):
        return SceneNotFound(f"{shown}: the server has no such file; check the address")
    if code in (401, 403) or any(refused in name for name in names for refused in _REFUSED):
        return SceneUnreadable(
            f"{shown}: the server refuses it; check the credentials in the environment (for a public bucket "
            "AWS_NO_SIGN_REQUEST=YES), or whether a signed address has run out"
        )
    if code:
        return SceneUnreachable(f"{shown}: the server answers with HTTP status {code}; try again later")
    if "CURL error" in text or "timed out" in text.lower():
        late = "timed out" in text.lower() or "too slow" in text.lower()
        fact = "the server does not answer in time" if late else "the server cannot be reached"
        return SceneUnreachable(f"{shown}: {fact}; check the address and the connection, and try again")
    return None


def read_error(shown: str, source: str, error: BaseException) -> TilingError:
    """Return the error of pixels that could not be read; in the middle of a file GDAL does not say why."""
    if source.startswith("/vsi") and not source.startswith("/vsizip/"):
        return network_error(shown, error) or SceneUnreachable(
            f"{shown}: some pixels did not come from the server or are damaged; try again or download it"
        )
    return SceneDamaged(f"{shown}: some of its pixels cannot be decoded; get a sound copy of the file")
