"""List English words and phrases for the speaker's feelings by feature, in the notation of `english`. Data only."""

from __future__ import annotations

FEATURES: dict[str, str] = {
    "mild": """
        nervous uneasy annoyed annoying~ irritat~ grumpy bored boring meh blah sulk~ tired knackered tense restless
        moody stressed stressful fed_up glad happy:1.5 content cheerful pleased nice:0.5 lovely:0.6 fun:0.4 enjoy~:0.8
        pretty_good:0.6 cosy cozy calm:0.5 smile~ smiling grin~ laugh~ giggl~ chuckl~ amused hope~:0.6 hopeful curious
        excited:1.3 thrill~:1.5 grateful:1.3 thankful:1.2 touched:1.2 moved_me:1.5 worr~ worry~ worried bother~
        disappoint~:1.2 frustrat~:1.2 embarrass~:1.2 awkward guilty:1.4 regret~:1.3 sorry:0.4 confus~:0.4 sick_of:1.3
        tired_of:1.3 unfair:1.2 rude shame_about pity:0.7 gutted:1.4 sad:1.4 sadly:0.8 down_today low_today
        feeling_low feeling_down cranky nag~:0.6 dread~:1.4 miffed stupid:0.6 silly:0.4 ugly:0.4 nasty:0.6 jealous:1.4
        envy~:1.2 envious:1.2 proud:1.5 relieved:1.5 relief:1.2 homesick:1.6 nostalgic not_great:1.3 not_ideal:1.3
        isn't_good:1.2 wasn't_great:1.3 wasn't_ideal:1.5 could_be_better cheered_me uplifting peaceful:0.8 relax~:0.5
        chuffed:1.3 stoked:1.3 psyched pumped flattered insecure:1.3 self-conscious shy:0.7 impatient offended:1.3
        insulted:1.3 unhappy:1.3 upset:1.5 upsetting:1.3 discouraged:1.2 concerned:0.8 freaked:1.4 grr ugh:0.8
        sigh:0.8 phew:1 yay:1 nerves:1 anxious:0.4 wistful uncomfortable rattled:1.3 shaken:1.5 unsettled:1.2
        lost_my_temper:1.5
    """,
    "clear": """
        angry anger furious:1.4 rage~:1.2 raging livid:1.3 fuming outrag~ sadness lonely loneliness alone:0.5 afraid
        scared frightened frighten~ fear~ anxious anxiety panic~:1.1 panick~:1.1 worried_sick hurt:0.6 hurts:0.7
        ashamed humiliat~ betray~:1.2 hate:0.7 hated:0.7 resent~ jealousy despair~:1.2 hopeless:1.1 helpless:1.1
        worthless:1.2 useless:0.5 impostor fraud:0.4 miserable overwhelm~ exhausted:0.8 drained:0.7 burnt_out:1.2
        burned_out:1.2 burnout:1.2 can't_cope:1.2 at_my_wits':1 falling_apart:1.2 fell_apart:1.2 break_down:0.8
        so_proud:1.1 so_relieved so_happy:1.1 overjoyed:1.3 ecstatic:1.2 elated:1.2 over_the_moon:1.2 delighted:0.8
        thrilled:0.8 best_day:1.2 happiest:1.3 wonderful:0.6 miracle:1.2 in_love:1.2 love_her love_him love_them:0.8
        loves_me:1 i_love_you:1.2 miss_home miss_her:1.1 miss_him:1.1 miss_them miss_my miss_you:0.8 heartbroken:1.4
        heartbreak:1.3 heart_is_broken:1.4 broke_my_heart:1.4 breaks_my_heart:1.4 dark_thoughts:1.4 darkness:0.5
        depressed:1.2 depression:0.9 lost_for_words speechless:0.8 in_shock:1.2 shocked:0.9 stunned:0.9 can't_believe
        don't_believe:0.7 can't_take:0.5 can't_stop couldn't_stop keep_thinking:0.9 can't_sleep couldn't_sleep:0.9
        haven't_slept not_slept barely_slept:0.9 lie_awake lay_awake lying_awake awake_all nightmare~:0.8 sick_to:1.2
        feel_sick:1.1 feel_like_a:0.7 feel_empty:1.2 feel_nothing:1.2 numb:1.1 hollow:0.6 don't_know_how:0.5
        don't_want_to:0.5 never_felt:1.1 feel_alive:1.1 no_one_said:0.7 forgive~:1 forgave:1 forgiven:1 apologis~:0.6
        apologiz~:0.6 longing:0.9 ach~:0.5 wish_i:0.9 if_only:0.8 proud_of:0.9 tears_of:1.1 hug~:0.6 hugged:0.8
        held_her:0.9 held_him:0.9 held_my:0.9 her_voice:0.9 his_voice:0.9 adore:0.9 cherish~:0.9 treasure~:0.6 bliss~
        joy:0.9 joyful loathe~ despise~ disgust~ bitter:0.7 anguish:1.3 torn:0.6 crushed:1.1 distraught:1.4
        inconsolable:1.4 beside_myself:1.2 missed:0.4 misses_me:0.9 ashamed_of guilt:0.9 remorse petrified:1.3
        horrified:1.3 horror:0.7 hopelessly moved_to love_of_my_life:1.3 i_loved_him:1.2 i_loved_her:1.2
        so_much_it:0.8 feels_like_home:1 blame_myself:1.3 hate_myself:1.4 my_fault:1.1 can't_forgive:1.2 feel_safe:0.9
        feel_guilty:0.9 losing_my_mind:1.2 losing_sleep:1 at_my_limit:1.2 can't_do_this:1.2 don't_recognise:0.9
        nobody_listens:0.9 proudest:1.2 loneliest:1.3 so_scared:1.2 too_afraid:1 wish_she:1 wish_he:1 wish_mum:1
        wish_dad:1
    """,
    "strong": """
        devastat~ grief griev~ mourn~ terrified terrify~ terror:0.8 agony unbearable heartbroken shatter~ suicidal
        want_to_die kill_myself end_my_life end_it_all self-harm hurt_myself cut_myself no_reason_to_live can't_go_on
        can't_breathe couldn't_breathe never_been_so never_been_happier worst_day:1 best_day_of best_night_of
        happiest_day fell_to_my_knees knees_gave my_world world_ended world_fell crisis_line:1 rape~ raped assault~
        abus~:0.8 beat_me:0.4 hit_me:0.9
    """,
    "body": """
        cry:0.9 cries:0.6 cried crying sob~ sobb~ tears tear~:0.3 weep~ wept shook shaking shake:0.5 trembl~
        scream~:0.8 screaming:0.8 lump_in my_throat heart_pounding pounding heart_racing goosebumps:0.8
        hands_are_shaking my_chest:0.8 threw_up:0.5 went_white went_quiet:0.6 punched_the:0.7 slammed:0.6
        voice_cracked jumped_up:0.5 couldn't_look:0.8 couldn't_speak couldn't_say:0.8 couldn't_move hid_in:0.6
        sat_on_the_floor in_the_dark:0.5 stared_at:0.5 choked choke~:0.6 blush~:0.5 heart_stopped heart_is_racing
        stomach_in_knots hands_shake hands_shook hands_trembled goose_bumps hyperventilat~ couldn't_stand_up:0.6
        legs_gave danced:0.4 hug~:0.5 kissed:0.6 smashed:0.4 yelled:0.8 shouted:0.8 howled tearful welled_up choked_up
        burst_into:0.9 punched:0.7
    """,
    "irony": """
        just_what_i_needed:1.3 exactly_what_i_needed:1.3 just_great:1 oh_great:1 oh_joy:1 how_lovely:0.6
        how_wonderful:0.8 what_a_joy:0.6 yeah_right:1 thanks_a_lot:0.8 thanks_for_nothing:1.3 as_if:0.5
        brilliant_timing:1.2 perfect_timing:0.9 lucky_me:1.1 my_favourite_part:0.9 bravo:0.5 great_another:1
        love_it_when:1.2 because_that_always:1 couldn't_be_better:0.4 so_glad_that:0.2 what_a_surprise:0.9
        well_done_me:0.8 slight_hiccup:1 small_hiccup:1 bit_of_a:0.5 small_problem:0.8 minor_issue:0.8 funny_how:0.8
        of_course_it:0.7 how_convenient:1.1 love_that_for_me thrilled_to_be:0.4 another_brilliant:0.9 oh_wonderful:1
        oh_good:0.6 oh_brilliant:1 oh_fantastic:1.1 just_perfect:1 how_thoughtful:0.8 what_could_possibly:1
        what_could_go_wrong:1 my_lucky_day:1 how_nice_of:0.9 really_helpful:0.7 so_helpful:0.5 truly_a:0.4 teensy:0.8
        tiny_problem:0.9 minor_mishap:1 bit_of_a_problem:0.7 bit_of_bad_news:0.8 not_exactly_thrilled:1
        could_have_gone_better:1.2 less_than_ideal:1.2 less_than_thrilled:1.2 suboptimal:0.8 oops:0.7 whoops:0.7
    """,
}
