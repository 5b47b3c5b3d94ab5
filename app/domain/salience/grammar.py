"""List negations, degree words and verb forms, and match instructions to the scorer. Data only."""

from __future__ import annotations

import re

_NEGATIONS = """
    not no never nobody none nothing neither nor without hardly barely isn't aren't wasn't weren't don't doesn't didn't
    won't wouldn't can't cannot couldn't haven't hasn't hadn't ain't no-one longer
"""
NEGATIONS = frozenset(_NEGATIONS.split())
_MORE = "so very really extremely incredibly absolutely completely utterly deeply terribly badly such"
_LESS = "slightly somewhat little bit mildly fairly kinda"
DEGREES = {**dict.fromkeys(_MORE.split(), 1.25), **dict.fromkeys(_LESS.split(), 0.7)}
"""Factors on the feeling that follows the word."""
_RESETS = ". ! ? ; : , but stop stopped help only just"
RESETS = frozenset(_RESETS.split())
"""Tokens that end the scope of a negation ("can't stop crying" means crying)."""
_COMMON = """
    the and a is to of i my for it was on at you not that with we have are this but be me in no he she
"""
COMMON = frozenset(_COMMON.split())
"""Common English words; a text without any of them is probably in another language."""
ORDER_HINTS = (
    "scor",
    "rate",
    "rating",
    "criteri",
    "salien",
    "forget",
    "instruction",
    "memor",
    "marks",
    "prompt",
    "guide",
)
"""Substrings that prefilter `ORDERS`: every text that `ORDERS` can match contains one of them."""
ORDERS = re.compile(
    r"\bscor(?:e|es|er|ing)\b.{0,30}\b(?:this|these|everything|rules?|policy|10|ten|the|as|is)\b|\bscor(?:e|er|ing)\b:"
    r"|\brat(?:e[sdr]?|ing)\b.{0,20}\b(?:this|it|these|memory|text|10|ten|the max)|\bsalience"
    r"|\b(?:highest|maximum|top|full) (?:score|rating|marks)\b"
    r"|criteri.{0,30}\b(?:10|ten)\b|\b(?:10|ten|highest|maximum|each|every|all)\b.{0,30}criteri"
    r"|\bnever[- ]forget\b.{0,3}(?:this|[,:!.\"]|$)"
    r"|\b(?:ignor|disregard|forget|overrid|supersede|repeat)\w*\b.{0,40}\b(?:instruction|prompt|rule|guide)s?\b"
    r"|\b(?:this|these|every|all|other) (?:\w+ )?memor(?:y|ies)\b",
    re.IGNORECASE,
)
"""Matches sentences that instruct a model to score, store or summarise memories; such sentences are not scored."""
_BETWEEN = """
    always only usually often never still also just really now mostly mainly rarely sometimes already finally not
    don't
"""
BETWEEN = frozenset(_BETWEEN.split())
"""Words allowed between a subject, or "have", and its verb."""
_NOT_A_HABIT = """
    am was were is are be been being had have has do did does will would could should can might may must shall cannot
    can't couldn't wouldn't didn't wasn't weren't haven't hadn't need want think guess mean hope know see hear wonder
    suppose feel bet swear wish agree and or to a the my our you he she it they them that this so but if who what all
    came went saw took got told gave said made found left put knew thought felt kept let met paid ran sat sent set slept
    spoke spent stood taught tore understood woke wore won wrote ate began bought brought built caught chose cut did
    drank drove fell flew forgot held hid hit hurt laid lay lost read rode rang rose sang shook shot shut sold swam
    threw broke became grew heard led lent
"""
NOT_A_HABIT = frozenset(_NOT_A_HABIT.split())
"""Words after "I" or "we" that are not a present-tense verb for a habit."""
_DONE = """
    been come gone made put told got had done found bought sold left kept met paid read sent set taught won lost held
    let cut built brought caught thought understood begun become run hurt quit split
"""
DONE = frozenset(_DONE.split())
"""Irregular past participles: those that don't end in -ed, -en or -wn."""
