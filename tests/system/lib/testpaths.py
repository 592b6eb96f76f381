"""Paths of the test tree."""

import pathlib

LIB = pathlib.Path(__file__).resolve().parent
SYSTEM, ROOT = LIB.parent, LIB.parents[2]
SCRIPTS, PROGRAMS = SYSTEM / "scripts", SYSTEM / "programs"
