"""The hard year: more topics, in more languages, in words that the salience rules don't list, amid dialogues."""
