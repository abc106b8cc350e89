"""The cases of every script."""

from __future__ import annotations

# Each of these adds its cases as it is imported.
import kit.claim_cases
import kit.job_cases
import kit.lease_cases
import kit.operator_cases
import kit.repair_cases
import kit.sweep_cases  # noqa: F401
from kit.script_cases import CASES, Case

__all__ = ["CASES", "Case"]
