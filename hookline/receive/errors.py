"""What can be wrong with a request that arrives."""

from hookline.errors import VerificationCode, VerificationError

__all__ = ["VerificationCode", "VerificationError"]
