"""The metrics of every kind, made once for all tests that reset them before they feed them."""

from exactness.bits import EVERY_KIND

METRICS = {str(case): case.metric() for case in EVERY_KIND}
