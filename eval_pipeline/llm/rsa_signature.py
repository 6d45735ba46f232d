"""RS256: the signature of a text with an RSA private key in PEM form (RFC 8017, PKCS #1 v1.5 with SHA-256).

Made for one signature an hour on the machine that owns the key: the time that it takes depends on the key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

_PEM = re.compile(r"-----BEGIN (RSA )?PRIVATE KEY-----(.*?)-----END (?:RSA )?PRIVATE KEY-----", re.DOTALL)
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")
_SEQUENCE, _INTEGER, _OCTETS = 0x30, 0x02, 0x04


def rs256(text: bytes, pem: str) -> bytes:
    """Return the signature of a text. Raises ValueError for a key that is no RSA private key in PEM form."""
    modulus, exponent = _private_key(pem)
    size = (modulus.bit_length() + 7) // 8
    digest = _SHA256 + hashlib.sha256(text).digest()
    padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def _private_key(pem: str) -> tuple[int, int]:
    """Return modulus and private exponent, of PKCS #8 (`PRIVATE KEY`) or PKCS #1 (`RSA PRIVATE KEY`)."""
    match = _PEM.search(pem)
    if match is None:
        raise ValueError("no private key in PEM form")
    try:
        content = _value(base64.b64decode(match[2]), _SEQUENCE)
        if match[1] is None:
            content = _value(next(value for tag, value in _values(content) if tag == _OCTETS), _SEQUENCE)
        numbers = [int.from_bytes(value, "big") for tag, value in _values(content) if tag == _INTEGER]
        _, modulus, _, exponent = numbers[:4]
    except (binascii.Error, IndexError, StopIteration, ValueError) as error:
        raise ValueError("no RSA private key") from error
    if modulus.bit_length() < 1024:
        raise ValueError("the RSA key is too short")
    return modulus, exponent


def _value(content: bytes, expected: int) -> bytes:
    tag, value = next(_values(content))
    if tag != expected:
        raise ValueError("another kind of value")
    return value


def _values(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the values of a DER text: tag and content."""
    at = 0
    while at < len(content):
        tag, length, at = content[at], content[at + 1], at + 2
        if length & 0x80:
            more = length & 0x7F
            length, at = int.from_bytes(content[at : at + more], "big"), at + more
        yield tag, content[at : at + length]
        at += length
