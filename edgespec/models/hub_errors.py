"""What went wrong between here and the Hub, in a sentence each.

Texts of the libraries below are not passed on: they are long, they carry addresses with signatures, and the way out
depends on the kind of failure only.
"""

from __future__ import annotations

import ssl
from typing import Any

from edgespec.errors import DownloadError

LOGIN_HINT = "Log in with `hf auth login`, or set HF_TOKEN to a token that may read it."
RETRY_STATUSES = frozenset((408, 425, 429, 500, 502, 503, 504))


class DownloadCancelled(DownloadError):
    """The person stopped it; what was fetched is kept."""

    def __init__(self) -> None:
        super().__init__(
            "The download was stopped; what was fetched is kept.", "Run the same command again to continue."
        )


class Interrupted(DownloadError):
    """The transfer broke off; trying again is worth it, now or later."""


def explain(error: Exception, what: str, endpoint: str) -> DownloadError:
    """The sentence for an error of the Hub's library or its HTTP client while fetching `what`."""
    from huggingface_hub import errors

    if isinstance(error, DownloadError):
        return error
    if isinstance(error, errors.OfflineModeIsEnabled):
        return offline(what)
    if isinstance(error, errors.GatedRepoError):
        return _gated(what, endpoint)
    if isinstance(error, errors.RevisionNotFoundError):
        return DownloadError(
            f"The version asked for of {what} is gone from {endpoint}.", "The registry may be outdated."
        )
    if isinstance(error, errors.DisabledRepoError):
        return DownloadError(f"{what} was disabled by the Hub.", "Choose another source.")
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return DownloadError(f"{endpoint} has no {what}.", "Check the file's name; upper and lower case count.")
    status = status_of(error)
    if status is not None:
        headers = getattr(getattr(error, "response", None), "headers", {})
        return explain_status(status, what, endpoint, str(headers.get("retry-after", "")))
    return _connection(error, what, endpoint)


def status_of(error: Exception) -> int | None:
    """The HTTP status an exception stands for, None for failures before there was one."""
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


def offline(what: str) -> DownloadError:
    return DownloadError(
        f"{what} is not on this disk, and offline mode is on (HF_HUB_OFFLINE).", "Unset HF_HUB_OFFLINE to fetch it."
    )


def explain_status(status: int, what: str, endpoint: str, wait: str = "") -> DownloadError:
    """The sentence for an HTTP status that is not what was wanted."""
    if status == 401:
        return DownloadError(
            f"{endpoint} wants to know who asks for {what} (401), or there is no such thing.", LOGIN_HINT
        )
    if status == 403:
        return DownloadError(f"{endpoint} refuses to give out {what} (403).", LOGIN_HINT)
    if status == 404:
        return DownloadError(f"There is no {what} on {endpoint} (404).", "Check the spelling: user/repo:QUANT.")
    if status == 407:
        return _proxy_login()
    if status == 416:
        return Interrupted(
            f"{endpoint} no longer has {what} in the length it had (416).", "Run the same command again."
        )
    if status == 429:
        return DownloadError(f"{endpoint} asks for a pause: too many requests (429).", _later(wait))
    if status >= 500:
        return DownloadError(
            f"{endpoint} has a fault of its own ({status}).", "Try again later; what was fetched is kept."
        )
    return DownloadError(
        f"{endpoint} answered {status} when asked for {what}.", "Try again, or fetch the file by hand."
    )


def _later(wait: str) -> str:
    if wait.isdigit():
        return f"Try again in {int(wait):,} seconds; a login raises the limit."
    return "Try again in a few minutes; a login raises the limit."


def _gated(what: str, endpoint: str) -> DownloadError:
    repo = "/".join(what.split("/")[:2])
    return DownloadError(
        f"{repo} is gated: its owner wants its terms accepted before anyone downloads it.",
        f"Accept them at {endpoint}/{repo}, then log in with `hf auth login` or set HF_TOKEN.",
    )


def _proxy_login() -> DownloadError:
    return DownloadError(
        "The proxy wants a login (407).", "Put user and password into HTTPS_PROXY: http://user:password@host:port."
    )


def _connection(error: Exception, what: str, endpoint: str) -> DownloadError:
    import httpx2

    if isinstance(error, httpx2.ProxyError):
        if "407" in str(error):
            return _proxy_login()
        return DownloadError("The proxy cannot be reached or refuses.", "Check HTTPS_PROXY and HTTP_PROXY.")
    if _is_certificate_error(error):
        return DownloadError(
            f"The certificate of {endpoint} is not trusted.",
            "If a company proxy replaces certificates, name its file in SSL_CERT_FILE; check this machine's clock.",
        )
    if isinstance(error, httpx2.ConnectTimeout | httpx2.ReadTimeout | httpx2.PoolTimeout | httpx2.WriteTimeout):
        return Interrupted(
            f"{endpoint} does not answer.", "Check the connection and try again; what was fetched is kept."
        )
    if isinstance(error, httpx2.ConnectError):
        return DownloadError(
            f"There is no connection to {endpoint}.", "Check the network, HF_ENDPOINT and HTTPS_PROXY, then try again."
        )
    if isinstance(error, httpx2.TransportError):
        return Interrupted(
            f"The connection broke while {what} was fetched.",
            "Run the same command again: it continues where it stopped.",
        )
    if isinstance(error, ValueError):
        return DownloadError(
            f"{what} is not a name the Hub could have.", "Write user/repo:QUANT or user/repo/file.gguf."
        )
    return DownloadError(
        f"{what} could not be fetched ({type(error).__name__}).", "Try again, or fetch the file by hand."
    )


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
