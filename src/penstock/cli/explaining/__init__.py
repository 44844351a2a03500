"""How `penstock explain` tells of a turn: `account` is what was kept, `sentences` and `moments` tell it."""
