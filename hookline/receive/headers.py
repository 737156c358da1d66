"""The headers of a request, as every part of the kit reads them."""

from hookline.headers import Headers

__all__ = ["Headers"]
