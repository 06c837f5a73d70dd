"""The items of a STAC API; its answers name the next addresses, which are checked before they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pystac import STACError, STACTypeError
from pystac_client import Client
from pystac_client.exceptions import APIError
from pystac_client.stac_api_io import StacApiIO
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException

from tiling import Access, TilingError
from workflows.addresses import public_path
from workflows.errors import CatalogInvalid, CatalogUnreachable
from workflows.pairs.options import CatalogOptions

SECONDS = 60
REDIRECTS = 10
_RETRIES = 5
# What is raised where something is missing or of a wrong type in a stranger's answer.
_ODD = (STACError, STACTypeError, ValueError, TypeError, LookupError, AttributeError)


class _CheckedAdapter(HTTPAdapter):
    """Sends nothing to an address that may not be asked; redirects come by here, too."""

    def __init__(self, access: Access) -> None:
        super().__init__(max_retries=_RETRIES)
        self._access = access

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        """Send a request; errors as :meth:`tiling.Access.check_address`."""
        address = request.url or ""
        self._access.check_address(public_path(address), address)
        return super().send(request, *args, **kwargs)


class _CheckedIO(StacApiIO):
    """Asks servers that may be asked, and reads no file."""

    def __init__(self, access: Access) -> None:
        super().__init__(timeout=SECONDS, max_retries=None)
        self.session.max_redirects = REDIRECTS
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, _CheckedAdapter(access))

    def read_text(self, source: Any, *args: Any, **kwargs: Any) -> str:
        """Read what an address of the web gives."""
        href = str(getattr(source, "href", source))
        if not href.lower().startswith(("http://", "https://")):
            raise CatalogInvalid(
                f"{public_path(href)}: an API names this, which is no address of the web; it is not read"
            )
        return str(super().read_text(source, *args, **kwargs))


def api_items(
    address: str, options: CatalogOptions, access: Access, collections: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Ask an API for items, page by page; ``access`` says which servers it may lead to.

    Raises:
        CatalogInvalid: it does not take the question, or leads to where it may not.
        CatalogUnreachable: it does not answer, or fails.
    """
    shown = public_path(address)
    requested = list(options.collections or collections)
    dates = (options.first_date or "..", options.last_date or "..")
    service = _CheckedIO(access)
    try:
        client = Client.open(address, stac_io=service)
        if not requested:
            names = sorted(collection.id for collection in client.get_collections())
            raise CatalogInvalid(
                f"{shown}: say which of its collections with --collection: {', '.join(names)}"
            )
        search = client.search(
            collections=requested,
            bbox=options.bounds,
            datetime=None if dates == ("..", "..") else "/".join(dates),
        )
        yield from search.items_as_dicts()
    except _ODD as error:
        # The library wraps what is raised of a file.
        if isinstance(error.__cause__, CatalogInvalid):
            raise CatalogInvalid(str(error.__cause__)) from error
        raise CatalogInvalid(f"{shown}: the API answers with something that is no STAC; check it") from error
    except APIError as error:
        # And what the adapter raises.
        if isinstance(error.__context__, TilingError):
            raise CatalogInvalid(str(error)) from error
        status = error.status_code
        if status is not None and 400 <= status < 500:
            raise CatalogInvalid(
                f"{shown}: the API refuses the question (HTTP {status}); check --collection, --bbox and dates"
            ) from error
        raise CatalogUnreachable(f"{shown}: the API fails (HTTP {status}); try again later") from error
    except RequestException as error:
        raise CatalogUnreachable(
            f"{shown}: the API does not answer ({type(error).__name__}); check the address or try again later"
        ) from error
    finally:
        service.session.close()
