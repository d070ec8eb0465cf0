"""A sentence with a blank: the text before it with each option, and the likelihood of the text after it."""


def context(row):
    return int(row["answer"]) - 1


def choices(row):
    before = row["sentence"].partition("_")[0]
    return [before + row["option1"], before + row["option2"]]


def rest(row):
    return row["sentence"].partition("_")[2].strip()
