"""A certificate for a receiver on loopback."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hookline import clock


def self_signed(directory: Path) -> tuple[Path, Path]:
    """Return a file with a key and its certificate, and a file with the certificate alone, which a sender can trust."""
    key, now = ec.generate_private_key(ec.SECP256R1()), clock.wall()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hookline bench")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both, bundle = directory / "receiver.pem", directory / "bundle.pem"
    both.touch(0o600)
    both.write_bytes(private + public)
    bundle.write_bytes(public)
    return both, bundle
