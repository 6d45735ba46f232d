"""Which files a diff changes."""

from __future__ import annotations

import pytest

from eval_pipeline.reports.unified_diff import changed_files

DIFF = """\
diff --git a/kept.py b/kept.py
index 1..2 100644
--- a/kept.py
+++ b/kept.py
@@ -1,3 +1,3 @@
 same
--- a removed comment
++++ an added one
 same
@@ -10 +10,2 @@ def f():
-old
+new
+newer
\\ No newline at end of file
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+hello
diff --git a/gone.txt b/gone.txt
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
"""


def test_files_are_told_with_what_was_added_and_removed() -> None:
    actual = [(file.path, file.created, file.deleted, file.added, file.removed) for file in changed_files(DIFF)]

    assert actual == [
        ("kept.py", False, False, 3, 2),
        ("new.txt", True, False, 1, 0),
        ("gone.txt", False, True, 0, 1),
    ]


@pytest.mark.parametrize("text", ["", "nothing changed", "@@ -1,2 +1,2 @@", "--- a\n+++ b\n@@ odd @@\n"])
def test_what_is_no_diff_changes_nothing(text: str) -> None:
    assert sum(file.added + file.removed for file in changed_files(text)) == 0
