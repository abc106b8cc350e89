"""Tests of the actor runtime. A package, so that type checkers do not take the folder for `actors/runtime` itself."""
