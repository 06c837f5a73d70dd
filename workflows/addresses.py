"""Removes passwords and signatures from paths and addresses that are printed or stored."""

import re
from pathlib import Path
from urllib.parse import unquote

from tiling import is_address

# Start of an address, even with one slash missing, and its end within a sentence.
_SERVER = r"(?:\w://+|\w\w:/)"
_END = r"(?=[:;,.)\]'\"]*(?:\s|$))"
_USER = re.compile(rf"({_SERVER})[^/\s]*@")
# With ? or # before the path, it is unclear what belongs to the password.
_UNCLEAR = re.compile(rf"({_SERVER})(?=[^/\s]*[?#])[^/\s]*@\S*?{_END}")
_QUERY = re.compile(rf"((?:{_SERVER}|(?<![\w.-])/vsi(?!zip)\w+)[^\s?#]*)[?#]\S*?{_END}")
# Query parameters that sign or authorise: they change with each signature, and no pixel depends on them.
_SIGNING = re.compile(
    r"x-(amz|goog|oss|ms)-.*|(aws|google|oss)access(key)?id|signature|expires|policy|key-pair-id|security-token"
    r"|sig|(access_?|id_?|sas_?)?token|api_?key|subscription-key"
)
# Parameters of Azure's signatures, too short to be recognised without ``sig`` beside them.
_AZURE = re.compile("s[eprtvis]|spr|sip|srt|sdd|skoid|sktid|skt|ske|sks|skv|saoid|suoid")


def public_path(path: str | Path) -> str:
    """Return ``path`` without the user, password and query of an address: a signature is a password too."""
    text = str(path)
    if not is_address(text) and "://" not in text:
        return text
    return re.sub(r"[?#].*", "", _without_user(text), flags=re.DOTALL)


def without_secrets(text: str) -> str:
    """Return a message without the users, passwords and queries of its addresses."""
    return _QUERY.sub(r"\1", _without_user(text))


def _without_user(text: str) -> str:
    return _USER.sub(r"\1", _UNCLEAR.sub(r"\1...", text))


def unsigned(address: str) -> str:
    """Return an address without the parts that change when it is signed again; it may still be a secret.

    >>> unsigned("https://me:word@host/get?layer=2&X-Amz-Signature=0")
    'https://host/get?layer=2'
    """
    shown = public_path(address)
    parts = [] if shown == address else [part for part in re.split("[?#&;]", address)[1:] if part]
    names = [unquote(part.partition("=")[0]).casefold() for part in parts]
    rest = [
        part
        for name, part in zip(names, parts, strict=True)
        if not (_SIGNING.fullmatch(name) or ("sig" in names and _AZURE.fullmatch(name)))
    ]
    return f"{shown}?{'&'.join(rest)}" if rest else shown
