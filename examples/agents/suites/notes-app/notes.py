"""Notes with a date and tags, newest first."""


def add(notes, date, text, tags=()):
    notes.append({"date": date, "text": text, "tags": list(tags)})
    return notes


def newest(notes, count=1):
    return notes[:count]
