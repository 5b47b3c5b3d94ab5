"""List the small talk of a simulated year, which shares words with its facts."""

from __future__ import annotations

from typing import Final

CHATTER: Final = (
    "The bus was {late} late again",
    "It is {weather} outside",
    "Lunch was {dish}, nothing special",
    "Be right back, {errand}",
    "Haha, good one",
    "ok thanks",
    "Sounds good to me",
    "Did you see {show} last night?",
    "My coffee went cold while I was on the phone",
    "The printer on the {floor} floor is jammed",
    "Standup took {late}, as always",
    "I'll be {late} late, sorry",
    "Somebody left {thing} in the meeting room",
    "There was {weather} weather on the way in",
    "Can you repeat that?",
    "The lift to the {floor} floor is out of order",
    "They were out of {dish} in the canteen",
    "A colleague hummed the tune of {show} all day",
    "I had to {errand}, and now I'm back",
    "Nothing new from the {floor} floor",
    "The Wi-Fi dropped for {late}",
    "I saw {thing} on the pavement",
    "Good morning",
    "See you tomorrow then",
    "The queue at the till took {late}",
    "They say it'll be {weather} at the weekend",
    "An ad for {show} popped up",
    "Somebody's dog barked at {thing}",
    "I dozed off during {show}",
    "The neighbours had {dish}, you could smell it on the {floor} floor",
    "Where did I put {thing}?",
    "Test, test, does this work?",
    "Never mind, found it",
    "A Volvo was parked across the entrance for {late}",
    "The doctor on {show} was so badly acted",
    "In the film they moved to {place} and back",
    "Somebody from {place} got the wrong number",
    "The train from {place} stood still for {late}",
    "There's a documentary about {place} on tonight",
    "The photos from {place} were blurred",
)
"""Templates; `FILLINGS` lists the values for each placeholder."""

FILLINGS: Final = {
    "late": ("five minutes", "ten minutes", "a quarter of an hour", "half an hour", "an hour", "ages"),
    "weather": ("drizzly", "sunny", "foggy", "windy", "icy", "muggy", "grey", "stormy"),
    "dish": ("ramen", "a cheese roll", "lentil soup", "cold pizza", "noodles", "a salad", "fish fingers", "goulash"),
    "errand": ("fetch a parcel", "feed the meter", "let the plumber in", "take the bins out", "find a charger"),
    "show": (
        "the quiz",
        "the derby",
        "that cooking contest",
        "the hospital series",
        "the late news",
        "the talent show",
    ),
    "floor": ("first", "second", "third", "fourth", "fifth"),
    "thing": ("an umbrella", "a glove", "a key ring", "a cello case", "a lunch box", "a red scarf", "half a bagel"),
    "place": ("Porto", "Leipzig", "Cornwall", "Lapland", "Utrecht", "Málaga", "Odense", "Trieste"),
}
