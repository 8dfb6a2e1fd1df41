"""Hypothesis profiles: ``dev`` by default, ``ci`` where ``CI=true``, ``deep`` by request.

``HYPOTHESIS_PROFILE`` names one and wins.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# How fast examples are drawn tells of the machine, not of the test; nor has a deadline
# a meaning where a test's clock is a mock.
_EVERY_PROFILE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("dev", _EVERY_PROFILE, max_examples=50)
settings.register_profile("ci", _EVERY_PROFILE, max_examples=200, derandomize=True, print_blob=True)
settings.register_profile("deep", _EVERY_PROFILE, max_examples=5000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") == "true" else "dev")
)
