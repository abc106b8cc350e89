"""What an error from the server proves: the one table that decides between repeating and giving up (S1, S2)."""

from __future__ import annotations

from enum import StrEnum

from redis.exceptions import AuthenticationError, AuthorizationError, InvalidResponse, RedisError, ResponseError

from .errors import ServerUnfitError


class Fault(StrEnum):
    """What is known of a command after an error."""

    NOT_RUN = "not_run"
    """The server said, or the connection shows, that the command did not run: repeat it freely."""
    MAYBE_RUN = "maybe_run"
    """The command was sent and nothing came back: it ran zero, one or more times."""
    NOSCRIPT = "noscript"
    """The server does not know the script (any more): load it and repeat."""
    REFUSED = "refused"
    """The server will not serve this client, or not this key: repeating cannot help."""
    BROKEN = "broken"
    """The command failed in the server: a defect of ours, or a key edited by hand."""


CODES: dict[str, Fault] = {
    "NOSCRIPT": Fault.NOSCRIPT,
    "LOADING": Fault.NOT_RUN,
    "BUSY": Fault.NOT_RUN,
    "MISCONF": Fault.NOT_RUN,
    "OOM": Fault.NOT_RUN,
    "READONLY": Fault.NOT_RUN,
    "NOREPLICAS": Fault.NOT_RUN,
    "TRYAGAIN": Fault.NOT_RUN,
    "CLUSTERDOWN": Fault.NOT_RUN,
    "MASTERDOWN": Fault.NOT_RUN,
    "NOAUTH": Fault.REFUSED,
    "WRONGPASS": Fault.REFUSED,
    "NOPERM": Fault.REFUSED,
    # One server is spoken to: the same one would send us away for ever.
    "MOVED": Fault.REFUSED,
    "ASK": Fault.REFUSED,
    "CROSSSLOT": Fault.REFUSED,
}
"""By the first word of an error reply. A server refuses so before a script's first write only: nothing has run."""

PHRASES: dict[str, Fault] = {
    "max number of clients reached": Fault.NOT_RUN,
    "Script killed by user": Fault.NOT_RUN,  # the server kills only what has written nothing
    "invalid password": Fault.REFUSED,
    "without any password configured": Fault.REFUSED,
    # Servers before 7 wrap the refusal of a script's first write into an ERR of the script.
    "-OOM ": Fault.NOT_RUN,
    "-MISCONF ": Fault.NOT_RUN,
    "-READONLY ": Fault.NOT_RUN,
    "-NOREPLICAS ": Fault.NOT_RUN,
}
"""What is found inside the text of an ERR."""


def code_of(error: BaseException) -> str:
    """Give the first word of the server's error reply, or '' where the server said nothing."""
    if not isinstance(error, RedisError):
        return ""
    if error.status_code:
        return str(error.status_code)
    if isinstance(error, ResponseError):
        return str(error).partition(" ")[0]
    return ""


def spoken(error: BaseException) -> str:
    """Say an error in a few words, with the server's code in front where the library took it off."""
    text = str(error)[:300]
    if not text:
        return type(error).__name__
    code = code_of(error)
    return text if not code or text.startswith(code) else f"{code} {text}"


def is_reply(error: BaseException) -> bool:
    """Tell a refusal that the server sent, after which the connection is still in step, from a broken connection."""
    return isinstance(error, ResponseError) or code_of(error) != ""


def classify(error: BaseException) -> Fault:
    """Say what an error proves of a command that was sent."""
    code = code_of(error)
    if code in CODES:
        return CODES[code]
    if isinstance(error, (AuthenticationError, AuthorizationError, ServerUnfitError)):
        return Fault.REFUSED
    text = str(error)
    for phrase, fault in PHRASES.items():
        if phrase in text:
            return fault
    return Fault.BROKEN if is_reply(error) else Fault.MAYBE_RUN


def classify_unsent(error: BaseException) -> Fault:
    """Say what an error proves of a command for which no connection could be made: it never left."""
    # On a unix socket the library hides what the server said at the greeting behind an error of the connection.
    link: BaseException | None = error
    while link is not None:
        # What answers a greeting with an error of its own, or not in this protocol, is not going to think better of it.
        if classify(link) in {Fault.REFUSED, Fault.BROKEN} or isinstance(link, InvalidResponse):
            return Fault.REFUSED
        link = link.__cause__
    return Fault.NOT_RUN
