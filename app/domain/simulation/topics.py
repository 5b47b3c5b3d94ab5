"""List what people of a simulated year say about themselves, and questions about it in other words.

All content is invented. A question shares no content word with any statement of its answer, so it can only be found by
meaning or by its person's name.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Topic(NamedTuple):
    """A kind of fact about a person.

    Attributes:
        area: Area of life.
        said: First-person statement templates; `{x}` is the value.
        asked: Question templates for the end of the year; `{who}` is the person.
        values: Possible values of `{x}`.
        changes: True if the value can change within a year.
    """

    area: str
    said: tuple[str, ...]
    asked: tuple[str, ...]
    values: tuple[str, ...]
    changes: bool = False


PEOPLE: Final = (
    "Orla", "Mateus", "Ingrid", "Farid", "Noemi", "Tobias", "Keiko", "Anselm", "Zuzana", "Dmitri", "Amara", "Callum",
    "Leocadia", "Bastian", "Yusuf", "Petronella", "Rohan", "Svetlana", "Gideon", "Mirabel",
)  # fmt: skip
_NAMES = ("Hanna", "Lucien", "Priya", "Oskar", "Delphine", "Rafael", "Wilma", "Jonas", "Celeste", "Emre")

TOPICS: Final = (
    Topic(
        "health",
        ("I break out in hives whenever there are {x} on my plate", "Even a trace of {x} makes my throat swell shut"),
        ("Which ingredient must be kept away from {who}?", "What food is dangerous for {who} to eat?"),
        ("peanuts", "prawns", "sesame seeds", "cashews", "strawberries", "lupins", "mussels"),
    ),
    Topic(
        "health",
        ("The doctor put me on {x}, one every morning", "I swallow my {x} with a glass of water each morning"),
        ("Which medication does {who} take daily?", "What pills were prescribed for {who}?"),
        ("lisinopril", "levothyroxine", "metformin", "sertraline", "atorvastatin", "warfarin"),
    ),
    Topic(
        "health",
        ("The lab says my blood is {x}", "My blood group is {x}, it stands on the card in my wallet"),
        ("What transfusion could {who} receive in an emergency?", "Which kind of donor would match {who}?"),
        ("A negative", "B positive", "0 negative", "AB positive", "0 positive"),
    ),
    Topic(
        "health",
        ("I can't read a road sign without my {x}", "Without {x} all I see is fog"),
        ("How good is the eyesight of {who}?", "Does {who} have poor vision?"),
        ("contact lenses", "thick glasses", "varifocals"),
    ),
    Topic(
        "health",
        ("I tore my {x} skiing, and stairs still hurt", "My {x} has never healed since that fall on the slopes"),
        ("What old injury bothers {who}?", "Which part of the body should {who} rest after the accident?"),
        ("cruciate ligament", "meniscus", "achilles tendon", "left shoulder", "hamstring"),
    ),
    Topic(
        "health",
        ("I don't eat {x} any more, for my conscience", "No {x} has been on my fork for two years"),
        ("What diet does {who} follow?", "What should a host leave out when cooking for {who}?"),
        ("meat", "dairy", "pork", "fish", "gluten"),
    ),
    Topic(
        "health",
        ("Put me near {x} and I panic", "I freeze and sweat at the sight of {x}"),
        ("What is {who} afraid of?", "Which phobia does {who} have?"),
        ("spiders", "needles", "big dogs", "snakes", "clowns"),
    ),
    Topic(
        "health",
        ("At night I wear a {x}, since I stop breathing", "The {x} on my bedside table keeps me breathing at night"),
        ("What helps {who} against sleep apnoea?", "Which device does {who} need for snoring and sleeping?"),
        ("CPAP mask", "nasal pump", "breathing hose"),
    ),
    Topic(
        "health",
        ("Every {x} my heart gets scanned", "Come {x} they look at my heart valve again"),
        ("In which month is the cardiac check-up of {who}?", "When does {who} have a hospital appointment?"),
        ("February", "June", "September", "November"),
    ),
    Topic(
        "health",
        ("On Tuesdays I talk to {x} about my anxiety", "{x} has helped me with my anxiety for years"),
        ("Who is the therapist of {who}?", "Which counsellor treats {who}?"),
        tuple(f"Dr {name}" for name in _NAMES),
    ),
    Topic(
        "relationships",
        ("{x} and I got married in a tiny chapel", "Since the wedding {x} and I share one bank card"),
        ("Who is the spouse of {who}?", "What is the name of the husband or wife of {who}?"),
        _NAMES,
    ),
    Topic(
        "relationships",
        ("Our little one, {x}, has started school", "{x}, our youngest, lost the first milk tooth"),
        ("What is the daughter or son of {who} called?", "Which child does {who} have?"),
        _NAMES,
    ),
    Topic(
        "relationships",
        ("My big sister {x} taught me to swim", "{x} is my sister, two years ahead of me"),
        ("What siblings does {who} have?", "Who grew up in the same family as {who}?"),
        _NAMES,
    ),
    Topic(
        "relationships",
        ("Our {x} sleeps at the foot of my bed", "We took in a {x} from the shelter"),
        ("What pet does {who} keep?", "Which animal lives with {who}?"),
        ("tabby cat", "greyhound", "beagle", "cockatiel", "dwarf rabbit", "tortoise"),
    ),
    Topic(
        "relationships",
        ("{x} and I have told each other everything since kindergarten", "There's nobody I'd rather call than {x}"),
        ("Who is the closest friend of {who}?", "Which person does {who} trust most?"),
        _NAMES,
    ),
    Topic(
        "relationships",
        ("The divorce from {x} has come through", "{x} and I signed the divorce papers"),
        ("Who was once married to {who}?", "What former partner does {who} have?"),
        _NAMES,
    ),
    Topic(
        "relationships",
        ("{x} across the hall has our spare key", "If we lose it, the other key is at the flat of {x}"),
        ("Who could open the door after a lockout of {who}?", "Which neighbour can let {who} in?"),
        _NAMES,
    ),
    Topic(
        "relationships",
        ("I report to {x} these days", "{x} signs my leave and does my review now"),
        ("Who is the boss of {who}?", "Which manager leads the team of {who}?"),
        _NAMES,
        changes=True,
    ),
    Topic(
        "relationships",
        ("My godchild {x} is coming for Easter", "I held {x} at the christening"),
        ("Whose godparent is {who}?", "For which little one does {who} act as sponsor in church?"),
        _NAMES,
    ),
    Topic(
        "facts",
        ("We've moved to {x}, the boxes are finally gone", "Our new flat is in the old town of {x}"),
        ("In which city is the home of {who}?", "Where does {who} live?"),
        ("Ghent", "Porto", "Leipzig", "Bergen", "Trieste", "Utrecht", "Galway"),
        changes=True,
    ),
    Topic(
        "facts",
        ("I spent my childhood in a village near {x}", "My parents' farm was close to {x}, I learned to walk there"),
        ("Where was {who} born and raised?", "From which region does {who} come originally?"),
        ("Kraków", "Cork", "Odense", "Málaga", "Tartu", "Bruges"),
    ),
    Topic(
        "facts",
        ("I have signed with {x} and start on Monday", "{x} has made me an analyst, with a badge and a desk"),
        ("Which company employs {who}?", "Where does {who} work?"),
        ("Northwind", "Halcyon Labs", "Brightwater", "Kestrel Foods", "Orbit Rail", "Silverline"),
        changes=True,
    ),
    Topic(
        "facts",
        ("I came into the world on {x}", "There'll be candles on my cake again on {x}"),
        ("When is the birthday of {who}?", "On which date does {who} get a year older?"),
        ("the 3rd of May", "the 29th of February", "the 17th of October", "the 8th of July", "the 21st of March"),
    ),
    Topic(
        "facts",
        ("We picked up the {x} from the dealer", "The {x} in front of the house is ours"),
        ("What car does {who} drive?", "Which vehicle does {who} own?"),
        ("Skoda estate", "electric Kona", "yellow Fiat", "old Saab", "Volvo hybrid", "camper van"),
        changes=True,
    ),
    Topic(
        "facts",
        ("With my grandparents I only talk in {x}", "My dreams are in {x}"),
        ("Which foreign language does {who} know?", "What mother tongue does {who} speak?"),
        ("Catalan", "Welsh", "Farsi", "Finnish", "Tagalog", "Hungarian"),
    ),
    Topic(
        "facts",
        ("I practise the {x} for an hour after supper", "My old {x} needs new strings before the recital"),
        ("What musical instrument does {who} play?", "Which skill might {who} bring to an orchestra?"),
        ("cello", "viola", "lute", "harp", "mandolin"),
    ),
    Topic(
        "facts",
        ("I wrote my thesis on {x}", "Four years of lectures on {x}, and I'd do it again"),
        ("What did {who} study at university?", "In which subject does {who} have a degree?"),
        ("marine biology", "medieval law", "number theory", "soil chemistry", "Sanskrit"),
    ),
    Topic(
        "facts",
        ("My passport runs out in {x}", "By {x} I have to renew my passport"),
        ("When does the travel document of {who} expire?", "Until which date may {who} cross borders?"),
        ("August", "January", "April", "December"),
    ),
    Topic(
        "facts",
        ("Burst pipes and burglars are covered by {x}", "{x} pays if our flat burns down"),
        ("Which insurer does {who} have?", "Whom should {who} call about insurance after damage at home?"),
        ("Aldgate Mutual", "Sankt Florian", "Pelican Cover", "Harbour Trust"),
    ),
    Topic(
        "facts",
        ("My salary goes to {x}", "{x} holds my savings, and the mortgage too"),
        ("At which bank does {who} have an account?", "Where is the money of {who} deposited?"),
        ("Triodos", "Raiffeisen", "Monzo", "Handelsbanken", "Caixa"),
        changes=True,
    ),
    Topic(
        "facts",
        ("I take a {x} in trainers", "Boots have to be a {x} or my toes are squeezed"),
        ("What shoe size does {who} wear?", "How large are the feet of {who}?"),
        ("thirty-seven", "thirty-nine", "forty-two", "forty-four", "forty-six"),
    ),
    Topic(
        "preferences",
        ("My day only begins with {x}", "{x}, without sugar, and I'm happy"),
        ("What does {who} like to drink?", "Which beverage should be ordered for {who}?"),
        ("black coffee", "a flat white", "Earl Grey", "matcha", "rooibos", "hot cocoa"),
        changes=True,
    ),
    Topic(
        "preferences",
        ("On planes I always book {x}", "If it isn't {x}, I won't board the plane"),
        ("Where does {who} prefer to sit when flying?", "Which spot suits {who} on a flight?"),
        ("the aisle", "a window", "the last row", "the emergency exit"),
    ),
    Topic(
        "preferences",
        ("{x} is what I put on when I'm in the kitchen", "I have every record of {x} on the shelf"),
        ("What is the favourite music of {who}?", "Which band does {who} enjoy listening to?"),
        ("Nick Drake", "Portishead", "Fela Kuti", "Arvo Pärt", "Dolly Parton"),
    ),
    Topic(
        "preferences",
        ("I could have {x} every single evening", "For {x} I'd walk across town"),
        ("What is the favourite dish of {who}?", "Which meal would please {who}?"),
        ("ramen", "moussaka", "pierogi", "lentil dal", "mushroom risotto", "fish tacos"),
    ),
    Topic(
        "preferences",
        ("Please nothing in my calendar before {x}", "I'm no use to anybody before {x}"),
        ("How early can one arrange a meeting with {who}?", "What is the first hour for an appointment with {who}?"),
        ("nine", "ten", "half past ten", "eleven"),
    ),
    Topic(
        "preferences",
        ("The walls of my study will be {x} and nothing else", "Everything I wear is {x}"),
        ("What colour does {who} like best?", "Which paint should be bought for {who}?"),
        ("olive green", "navy blue", "mustard yellow", "terracotta", "plum"),
    ),
    Topic(
        "preferences",
        ("Send me {x}, I never pick up", "I answer {x} within minutes and nothing else"),
        ("What is the best way of contacting {who}?", "How does {who} want to be reached?"),
        ("a text", "an e-mail", "a Signal message", "a voice note"),
    ),
    Topic(
        "preferences",
        ("Give me figures as {x}, not as prose", "I only take in numbers as {x}"),
        ("In what format should results be presented to {who}?", "How does {who} like reports laid out?"),
        ("a table", "a bar chart", "bullet points", "one slide"),
    ),
    Topic(
        "preferences",
        ("I fall asleep over anything but {x}", "My nightstand is piled high with {x}"),
        ("What kind of books does {who} read?", "Which literature would be a good present for {who}?"),
        ("crime novels", "poetry", "space operas", "biographies", "ghost stories"),
    ),
    Topic(
        "preferences",
        ("Every Saturday I go {x} with the club", "My arms ache from {x} at the club"),
        ("What sport does {who} do?", "How does {who} stay fit?"),
        ("bouldering", "rowing", "fencing", "kayaking", "archery"),
        changes=True,
    ),
    Topic(
        "preferences",
        ("We rent the same cabin in {x} each July", "July means our cabin in {x}"),
        ("Where does {who} spend the holidays?", "What is the usual vacation destination of {who}?"),
        ("the Dolomites", "Lapland", "the Azores", "Cornwall", "Brittany"),
    ),
    Topic(
        "decisions",
        ("We have settled on {x} for billing", "Billing runs on {x} from now on, that's final"),
        ("Which database was chosen by the team of {who}?", "What storage technology does the project of {who} use?"),
        ("PostgreSQL", "DynamoDB", "MongoDB", "Cassandra", "MySQL"),
        changes=True,
    ),
    Topic(
        "decisions",
        ("The contract goes to {x}, the others are out", "We shook hands with {x} on the three-year contract"),
        ("Which supplier was selected by {who}?", "Who won the tender that {who} ran?"),
        ("Merino Print", "Atlas Freight", "Blue Heron", "Quarry Steel"),
    ),
    Topic(
        "decisions",
        ("We enrolled the twins at {x}", "From autumn on the twins go to {x}"),
        ("Where will the children of {who} be taught?", "Which school did the family of {who} pick?"),
        ("Saint Brigid's", "the Waldorf on Mill Lane", "Hillside Primary", "the Lycée"),
    ),
    Topic(
        "decisions",
        ("The launch is fixed for {x}", "We ship on {x}, whatever happens"),
        ("When does the product of {who} go live?", "What is the release date of the project of {who}?"),
        ("the 4th of June", "the 12th of September", "the 1st of March", "the 20th of November"),
        changes=True,
    ),
    Topic(
        "decisions",
        ("We have capped the renovation at {x}", "The renovation ends at {x}, not a cent more"),
        ("How much may the building works of {who} cost?", "What is the spending limit for the house of {who}?"),
        ("forty thousand", "ninety thousand", "sixty-five thousand", "twelve thousand"),
        changes=True,
    ),
    Topic(
        "decisions",
        ("I have given up {x} for good", "Not one of those {x} for me, never again"),
        ("Which habit did {who} quit?", "What vice has {who} abandoned?"),
        ("cigarettes", "cocktails", "lottery tickets", "energy drinks"),
    ),
    Topic(
        "decisions",
        ("We're tying the knot at {x}", "{x} is ours for the big day, the deposit is paid"),
        ("Where will {who} marry?", "What venue was reserved for the wedding of {who}?"),
        ("Castle Rowan", "the boathouse", "the botanical garden", "the town hall"),
    ),
    Topic(
        "decisions",
        ("At {x} I hang up my boots", "I'll be fishing all day from {x} on"),
        ("At what age does {who} retire?", "When will {who} draw a pension?"),
        ("fifty-five", "sixty", "sixty-three", "sixty-seven"),
    ),
    Topic(
        "decisions",
        ("New services are written in {x} here", "{x} for everything new, the architects have agreed"),
        ("What programming language does the team of {who} use?", "Which coding standard did {who} adopt?"),
        ("Rust", "Kotlin", "Elixir", "Haskell", "Golang"),
        changes=True,
    ),
    Topic(
        "promises",
        ("I told Grandma that I would {x}", "Grandma counts on me to {x}"),
        ("What did {who} promise?", "Which favour does {who} owe a relative?"),
        ("mend her fence", "drive her to the coast", "sort her photographs", "repaint her porch"),
    ),
    Topic(
        "promises",
        ("A tenth of what I earn goes to {x}", "{x} can count on my monthly transfer"),
        ("Which charity does {who} donate to?", "What good cause does {who} support?"),
        ("the lifeboats", "Doctors Without Borders", "the food bank", "the bat rescue"),
    ),
    Topic(
        "promises",
        ("I water the plants of {x} until she is back", "While {x} is abroad, the plants are my job"),
        ("For whom does {who} look after a garden?", "Whose flowers is {who} caring for?"),
        _NAMES,
    ),
)  # fmt: skip
