"""Signs receipts, and finds the key that a signature was made with, also after the key was changed.

A key is written `key_id:secret`, the secret in hex or base64, 32 bytes at least. Several are set apart by white space,
and `#` begins a comment: the first one signs, the others only verify. A change of key puts the new one in front.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from pathlib import Path

from ...leases.errors import SettingsError
from .receipt import Receipt

VARIABLE = "MYCELIUM_RECEIPT_KEY"
"""The environment variable with keys."""

LEAST_BYTES = 32

_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_ASK_SIGNER = "Nothing was verified. Ask who signed them for the key: only the key that signed a receipt verifies it."
_MAKE_ONE = "Make one: printf 'key-1:%s\\n' \"$(openssl rand -hex 32)\"."


class ReceiptSigner:
    """Signs with one key.

    Args:
        key_id: names the key in receipts: 1 to 64 of `A-Z a-z 0-9 . _ -`, beginning with a letter or digit.
        key: the secret, 32 bytes at least.

    Raises:
        SettingsError: the id is not one, or the key is too short.
    """

    __slots__ = ("_key", "key_id")

    def __init__(self, key_id: str, key: bytes) -> None:
        if not _KEY_ID.fullmatch(key_id):
            what = "The id of a receipt key is not 1 to 64 of A-Z, a-z, 0-9, '.', '_', '-'."
            raise SettingsError(what, next_step="Write key_id:secret, in this order.")
        if len(key) < LEAST_BYTES:
            what = f"Receipt key {key_id!r} has {len(key)} bytes; at least {LEAST_BYTES} are needed."
            raise SettingsError(what, next_step=_MAKE_ONE)
        self.key_id = key_id
        self._key = bytes(key)

    def __repr__(self) -> str:
        return f"ReceiptSigner(key_id={self.key_id!r})"

    def __reduce__(self) -> str | tuple[object, ...]:
        """Refuse to be written down: the key would be."""
        what = "A receipt signer is not pickled."
        raise TypeError(what)

    def sign(self, receipt: Receipt) -> Receipt:
        """Give the receipt with this key's id and signature.

        Raises:
            BadCallError: a field is not text that has a canonical form, or the receipt is too long.
        """
        named = dataclasses.replace(receipt, key_id=self.key_id)
        return dataclasses.replace(named, signature=self.signature_of(named))

    def signature_of(self, receipt: Receipt) -> str:
        """Give the signature that this key makes of a receipt's other fields; errors are those of `sign`."""
        return hmac.new(self._key, receipt.signed_part(), hashlib.sha256).hexdigest()


class ReceiptKeys:
    """Keys by id: the first signs, all verify.

    Args:
        keys: secrets by id.

    Raises:
        SettingsError: there is none, or one is not a key.
    """

    __slots__ = ("_signers",)

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._signers = {key_id: ReceiptSigner(key_id, key) for key_id, key in keys.items()}
        if not self._signers:
            raise SettingsError("There is no receipt key.", next_step=_MAKE_ONE)

    def __repr__(self) -> str:
        return f"ReceiptKeys({', '.join(self._signers)})"

    @property
    def signer(self) -> ReceiptSigner:
        """What signs: the first key."""
        return next(iter(self._signers.values()))

    def get(self, key_id: str) -> ReceiptSigner | None:
        """The key of an id."""
        return self._signers.get(key_id)

    @classmethod
    def read(cls, written: str, where: str, *, to_sign: bool = True) -> ReceiptKeys:
        """Read `key_id:secret`, once or more often.

        Args:
            written: the keys.
            where: what to name in an error.
            to_sign: whether any key will do, as for signing: an error then tells how to make one.

        Raises:
            SettingsError: it has no key, one is not a key, or an id is there twice.
        """
        keys: dict[str, bytes] = {}
        for line in written.splitlines():
            for word in line.partition("#")[0].split():
                key_id, _, secret = word.partition(":")
                if not secret or key_id in keys:
                    what = f"{where} has a key without an id, or an id twice."
                    raise SettingsError(what, next_step="Write key_id:secret, each id once.")
                keys[key_id] = _secret(secret, where)
        if not keys:
            raise SettingsError(f"{where} has no receipt key.", next_step=_MAKE_ONE if to_sign else _ASK_SIGNER)
        return cls(keys)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, *, to_sign: bool = True) -> ReceiptKeys:
        """Read MYCELIUM_RECEIPT_KEY; errors are those of `read`."""
        return cls.read((os.environ if environ is None else environ).get(VARIABLE, ""), VARIABLE, to_sign=to_sign)

    @classmethod
    def from_file(cls, path: Path, *, to_sign: bool = True) -> ReceiptKeys:
        """Read a file of keys.

        Raises:
            SettingsError: as `read`; or the file cannot be read.
        """
        try:
            written = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SettingsError(f"The key file {path} cannot be read: {why}.", next_step="Check the path.") from None
        return cls.read(written, f"The key file {path}", to_sign=to_sign)


def _secret(secret: str, where: str) -> bytes:
    try:
        # Base64 of a random key is not hex digits alone, and a hex key with one lost must not be taken for it.
        if _HEX.fullmatch(secret):
            return bytes.fromhex(secret)
        padded = secret + "=" * (-len(secret) % 4)
        return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        # Never with what it was: it may be a key with one wrong letter.
        what = f"{where} has a secret that is neither hex nor base64."
        raise SettingsError(what, next_step=_MAKE_ONE) from None
