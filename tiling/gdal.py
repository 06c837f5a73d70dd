"""GDAL's options for files of strangers, and its errors in our words."""

import os
import re
import threading
import warnings

import rasterio
from rasterio.errors import NotGeoreferencedWarning

from tiling.errors import SceneDamaged, SceneNotFound, SceneUnreachable, SceneUnreadable, TilingError

# Never, whatever the environment says: run code, read raw bytes of any file as pixels, send a local file as
# the headers of a request.
_PINNED = {
    "GDAL_VRT_ENABLE_PYTHON": "NO",
    "GDAL_VRT_ENABLE_RAWRASTERBAND": "NO",
    "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": "SIBLING_OR_CHILD_OF_VRT_PATH",
    "CPL_VSIL_CURL_HEADER_FILE_KVP_ENABLED": "NO",
}
# GDAL itself would wait for ever.
_TIMEOUTS = {
    "GDAL_HTTP_CONNECTTIMEOUT": "20",
    "GDAL_HTTP_TIMEOUT": "300",
    "GDAL_HTTP_LOW_SPEED_TIME": "60",
    "GDAL_HTTP_LOW_SPEED_LIMIT": "100",
    "GDAL_HTTP_MAX_RETRY": "3",
    "GDAL_HTTP_RETRY_DELAY": "1",
}
# No listing of the folder and no sidecars: they are not checked, and any driver would open them.
_NO_SIDECARS = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}
# Many addresses are signed for reading only, not for asking for the size.
_SIGNED = {"CPL_VSIL_CURL_USE_HEAD": "NO"}
_MISSING = ("ObjectNotFound", "BucketNotFound")
_REFUSED = ("AccessDenied", "InvalidCredentials", "SignatureDoesNotMatch")


def safe_environment(source: str = "") -> rasterio.Env:
    """Return the GDAL options to read strangers' files with; they end with the ``with`` block.

    Args:
        source: the name that GDAL opens, see :class:`SceneInfo`. On servers and in archives no masks,
            overviews and other sidecars are looked for.
    """
    options = _PINNED | {"GDAL_NUM_THREADS": "1"}
    if source.startswith("/vsi"):
        # The user's own settings of timeouts win.
        wishes = _TIMEOUTS | (_SIGNED if "?" in source else {})
        set_before = rasterio.env.getenv() if rasterio.env.hasenv() else {}
        configured = {name.upper() for name in (*os.environ, *set_before)}
        options |= _NO_SIDECARS | {name: value for name, value in wishes.items() if name not in configured}
    return rasterio.Env(**options)


class _GeoreferencingOptional:
    """Within its block rasterio does not warn of missing georeferencing.

    Filters of warnings belong to the process: the first thread that enters sets the filter, the last one
    that leaves removes it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore", NotGeoreferencedWarning)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.__exit__(None, None, None)


georeferencing_optional = _GeoreferencingOptional()


def network_error(shown: str, error: BaseException) -> TilingError | None:
    """Translate an error of GDAL that comes from a server; None if it is about something else.

    GDAL's own message is not passed on: it may hold the address with its signature.
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
            f"{shown}: the server refuses access; check the credentials in the environment (for a public "
            "bucket AWS_NO_SIGN_REQUEST=YES), or whether a signed address has expired"
        )
    if code:
        return SceneUnreachable(f"{shown}: the server answers with HTTP status {code}; try again later")
    if "CURL error" in text or "timed out" in text.lower():
        late = "timed out" in text.lower() or "too slow" in text.lower()
        fact = "the server does not answer in time" if late else "the server cannot be reached"
        return SceneUnreachable(f"{shown}: {fact}; check the address and the connection, and try again")
    return None


def read_error(shown: str, source: str, error: BaseException) -> TilingError:
    """Return the error for pixels that could not be read; GDAL gives no reason in the middle of a file."""
    if source.startswith("/vsi") and not source.startswith("/vsizip/"):
        return network_error(shown, error) or SceneUnreachable(
            f"{shown}: some pixels are damaged or did not arrive; try again or download it"
        )
    return SceneDamaged(f"{shown}: some of its pixels cannot be decoded; get an undamaged copy", shown)
