"""A module that saves files, in ways that are right and wrong."""

import os


def write(name, text, is_synced):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if is_synced:
            os.fsync(file.fileno())


def sync_directory():
    directory = os.open(".", os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def save_in_place():
    write("notes.txt", "new", is_synced=True)


def save_by_rename():
    write("notes.tmp", "new", is_synced=True)
    os.rename("notes.tmp", "notes.txt")
    sync_directory()


def save_without_fsync():
    write("notes.tmp", "new", is_synced=False)
    os.rename("notes.tmp", "notes.txt")


def fails():
    raise ValueError("no disk")
