"""What of notes.py crashcut verifies, and what it finds. test.sh runs this and says what must come out."""

import pytest

import notes

BEFORE = {"notes.txt": "old"}


def save_here():
    notes.save_by_rename()


def test_rename_is_safe(crashcut_check):
    crashcut_check(notes.save_by_rename, before=BEFORE)


def test_function_of_the_test_itself(crashcut_check):
    crashcut_check(save_here, saves=["notes.txt"], before={"notes.txt": b"old", "more/other.txt": "other"})


def test_several_checks_in_one_test(crashcut_check):
    for mode in ["ordered", "journal"]:
        crashcut_check(notes.save_by_rename, before=BEFORE, options=["--data", mode])


def test_in_place_is_lost(crashcut_check):
    crashcut_check(notes.save_in_place, before=BEFORE)


def test_without_fsync_is_lost(crashcut_check):
    crashcut_check(notes.save_without_fsync, before=BEFORE)


def test_bounded_is_skipped(crashcut_check):
    crashcut_check(notes.save_by_rename, before=BEFORE, options=["--max-recoveries", "1"])


def test_function_that_fails_has_no_verdict(crashcut_check):
    crashcut_check(notes.fails, before=BEFORE)


def test_lambda_is_refused(crashcut_check):
    with pytest.raises(ValueError, match="cannot be found by its name"):
        crashcut_check(lambda: None)
