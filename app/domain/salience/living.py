"""List English words for circumstances of life, lasting facts and passing matters, in the notation of `english`.

The lists hold general word classes, not phrases taken from particular texts. Data only.
"""

from __future__ import annotations

FEATURES: dict[str, str] = {
    "life": """
        home:0.4 house:0.6 flat:0.5 apartment:0.7 rented:0.4 rent:0.6 landlord:0.5 cabin:0.5 cottage:0.5 farm:0.5
        village:0.5 town:0.3 hometown:0.9 neighbourhood:0.6 neighbour:0.4 renovat~:0.6 renovation:0.7 mortgage:0.8
        garden:0.3 study:0.3 kitchen:0.2 address:0.7 key:0.4 keys:0.4 childhood:0.9 grew_up:0.8 born:0.6 raised:0.5
        birthday:0.8 bank:0.5 savings:0.8 salary:0.8 wages:0.8 income:0.8 earn~:0.6 pension:0.8 retire~:0.7 insur~:0.8
        insurance:0.9 insurer:0.9 cover:0.3 covered:0.5 passport:0.8 visa:0.6 licence:0.7 license:0.6 car:0.5 bike:0.4
        bicycle:0.5 motorbike:0.6 van:0.4 boat:0.5 cat:0.6 dog:0.5 puppy:0.7 kitten:0.7 rabbit:0.6 hamster:0.7
        parrot:0.7 tortoise:0.7 horse:0.5 pet:0.8 pets:0.8 blood:0.5 eyesight:0.9 glasses:0.6 lenses:0.7 scar:0.7
        thesis:0.7 degree:0.6 studied:0.7 studies:0.5 lectures:0.5 major:0.3 apprentice~:0.8 apprenticeship:0.9
        diploma:0.7 job:0.5 profession:0.9 career:0.7 employer:0.9 employed:0.7 boss:0.5 manager:0.4 analyst:0.5
        engineer:0.5 report_to:0.8 reports_to:0.8 club:0.5 choir:0.7 orchestra:0.6 band:0.3 violin:0.7 piano:0.6
        cello:0.5 guitar:0.6 flute:0.7 drums:0.5 instrument:0.5 hobby:0.9 hobbies:0.9 collect~:0.5 novels:0.5 poetry:0.5
        school:0.5 kindergarten:0.4 nursery:0.4 charity:0.8 donat~:0.8 donation:0.8 volunteer~:0.8 holidays:0.4
        vacation:0.4 grandparents:0.8 ancestors:0.7 phobia:1 fear_of:0.7 afraid_of:0.7 panic:0.6 wear~:0.4 diet:0.7
        teetotal:0.9 habit:0.5 conscience:0.6 godchild:0.9 godparent:0.9 siblings:0.8 youngest:0.5 eldest:0.6 boss's:0.5
        tying_the_knot:1 tie_the_knot:1 tied_the_knot:1 christening:0.7 baptism:0.7 supplier:0.5 vendor:0.5 tender:0.3
        architects:0.3 architecture:0.4 billing:0.5 launch:0.6 deadline:0.4 greyhound:0.7 beagle:0.7 terrier:0.7
        labrador:0.7 spaniel:0.7 poodle:0.7 retriever:0.6 tabby:0.7 canary:0.6 budgie:0.7 cockatiel:0.7 goldfish:0.7
        guinea_pig:0.8 pony:0.6 lizard:0.5 hens:0.5 english:0.2 french:0.3 german:0.3 spanish:0.3 italian:0.3
        portuguese:0.4 polish:0.3 dutch:0.3 turkish:0.3 arabic:0.4 farsi:0.4 hindi:0.4 mandarin:0.4 welsh:0.4
        catalan:0.4 finnish:0.4 hungarian:0.4 tagalog:0.4 greek:0.3 hundred:0.3 thousand:0.5 million:0.4 euros:0.4
        dollars:0.4 pounds:0.4 cent:0.3 budget:0.5
    """,
    "lasting": """
        every:0.7 each:0.5 always:0.7 usually:0.8 normally:0.6 never:0.6 any_more:0.7 anymore:0.7 no_longer:0.8
        for_good:0.9 never_again:0.9 from_now_on:1 from_*_on:0.7 these_days:0.7 nowadays:0.8 for_years:1 years:0.6
        since:0.5 until:0.4 whenever:0.7 everything:0.5 nothing_else:0.8 nothing_but:0.8 anything_but:0.8 only:0.4
        mondays:0.8 tuesdays:0.8 wednesdays:0.8 thursdays:0.8 fridays:0.8 saturdays:0.8 sundays:0.8 weekends:0.6
        mornings:0.6 evenings:0.6 by_heart:0.6 forever:0.8 permanent~:0.8 lifelong:1 at_most:0.5 no_more:0.5 fixed:0.6
        capped:0.7 settled:0.7 whatever_happens:0.8 counts_on:0.8 count_on:0.7 relies_on:0.7 belongs_to:0.7 without:0.3
        not_a:0.2 won't:0.4 final:0.5 years_ago:0.3 as_a_rule:0.8 by_default:0.7 before_seven:0.7 before_eight:0.7
        before_nine:0.7 before_ten:0.7 before_eleven:0.7 before_noon:0.7 before_half:0.6 after_six:0.6 after_eight:0.6
        monthly:0.6 yearly:0.6 standard:0.3
    """,
    "passing": """
        late:0.7 minutes_late:1.3 hour_late:1.3 running_late:1.3 be_late:1.3 bus:0.6 train:0.6 tram:0.6 traffic:0.7
        queue:0.7 delayed:0.7 platform:0.3 lift:0.5 elevator:0.6 escalator:0.7 printer:0.7 photocopier:0.7 wi-fi:0.6
        wifi:0.3 standup:0.7 stand-up:0.5 canteen:0.8 cafeteria:0.8 lunch:0.6 snack:0.6 coffee:0.3 weather:1 outside:0.5
        drizzl~:1 drizzly:1 sunny:0.9 foggy:0.9 windy:0.9 icy:0.6 muggy:1 stormy:0.8 cloudy:0.9 rainy:0.9 raining:0.9
        snowing:0.8 chilly:0.8 humid:0.8 last_night:0.3 tonight:0.2 dozed:0.9 doze~:0.9 yawn~:0.8 nodded_off:0.9
        right_back:0.9 be_back:0.7 i'm_back:0.7 jammed:0.7 out_of_order:0.8 wrong_number:0.8 pavement:0.6 sidewalk:0.6
        meeting_room:0.5 somebody:0.4 someone:0.3 bark~:0.6 went_cold:0.8 nothing_special:1 nothing_new:0.8 blurred:0.6
        blurry:0.6 stood_still:0.7 badly_acted:1 tune:0.4 humm~:0.6 smell_it:0.5 ran_out_of:0.4 sorry_i'm:0.5
        where_did_i:0.8 parcel:0.4 charger:0.5 bins:0.4 umbrella:0.4 small_talk:0.8 anyway:0.4
    """,
    "screen": """
        ad:0.8 advert:0.8 adverts:0.8 commercials:0.7 on_tv:0.8 tv:0.5 telly:0.8 film:0.5 movie:0.6 documentary:0.8
        series:0.6 episode:0.7 quiz:0.6 the_news:0.5 late_news:0.8 talent_show:0.9 the_show:0.6 contest:0.4 soap:0.4
        actor:0.4 acted:0.6 trailer:0.5 streaming:0.4 derby:0.5
    """,
}
