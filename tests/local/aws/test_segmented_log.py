"""Records that outlive their writer, however it ended."""

import json
from pathlib import Path

import pytest

from local.aws.errors import LocalAWSError
from local.aws.segmented_log import SegmentedLog


def _segments(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def _append(directory: Path, *records: str) -> None:
    """One run that writes and ends."""
    log = SegmentedLog(directory)
    for record in records:
        log.append(record)
    log.cut()


def test_records_come_back_in_order_over_several_segments(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    for number in range(4):
        log.append({"n": number})
        log.cut()

    assert [record["n"] for record in SegmentedLog(tmp_path).read()] == [0, 1, 2, 3]


def test_dropping_spares_what_was_appended_after_the_cut(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    log.append("covered")
    covered = log.cut()
    log.append("later")
    log.drop(covered)
    log.cut()

    assert list(SegmentedLog(tmp_path).read()) == ["later"]


def test_cut_without_a_new_record_makes_no_segment(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    log.append("only")

    assert log.cut() == log.cut() == 1
    assert len(_segments(tmp_path)) == 1


def test_torn_last_line_is_no_record_and_is_never_continued(tmp_path: Path) -> None:
    _append(tmp_path, "whole")
    with _segments(tmp_path)[0].open("ab") as file:
        file.write(json.dumps(["torn"]).encode())
    _append(tmp_path, "next run")

    assert list(SegmentedLog(tmp_path).read()) == ["whole", "next run"]


def test_damaged_line_is_named_and_not_skipped(tmp_path: Path) -> None:
    _append(tmp_path, "first", "second")
    path = _segments(tmp_path)[0]
    path.write_bytes(path.read_bytes().replace(b'"second"', b'"sec\0'))

    with pytest.raises(LocalAWSError, match=f"line 2 of {path} is damaged"):
        list(SegmentedLog(tmp_path).read())


def test_record_that_cannot_be_written_leaves_the_log_usable(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    log.append("before")
    # A disk that is full: the kernel takes a part of the line, then nothing.
    with Path("/dev/full").open("wb", buffering=0) as full:
        kept, log._file = log._file, full
        with pytest.raises(OSError, match="No space"):
            log.append("lost")
    assert kept is not None
    kept.close()
    log.append("after")
    log.cut()

    assert list(SegmentedLog(tmp_path).read()) == ["before", "after"]
