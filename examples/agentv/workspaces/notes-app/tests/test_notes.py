from notes import add

assert add(2, 3) == 5
