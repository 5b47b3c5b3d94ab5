"""List English words and phrases by salience feature; `reading` matches them. Data only.

A word may carry a strength (`sad:0.7`, default 1). `~` adds its regular inflections (cry~ is cry, cries, cried,
crying). In a phrase, `_` joins words and `*` matches any one word. Words by which a text claims its own importance
("vital", "never forget", "urgent") are deliberately in no list, so they raise no score.
"""

from __future__ import annotations

FEATURES: dict[str, str] = {
    "death": """
        died dying:0.9 dies:0.7 dead:0.6 death:0.7 passed_away passed_on:0.6 passed_in_his passed_in_her funeral
        buried:0.8 cremat~ coffin ashes:0.6 wake:0.1 widow widower orphan~ miscarriage miscarried stillborn
        lost_my_wife lost_my_husband lost_my_mother lost_my_father lost_my_mum lost_my_dad lost_my_son
        lost_my_daughter lost_my_sister lost_my_brother lost_our_baby lost_the_baby lost_her lost_him killed:0.7
        suicide put_to_sleep put_*_to_sleep put_*_down:0.5 had_to_put:0.6 didn't_make_it didn't_wake hospice
        palliative terminal:0.8 weeks_to_live months_to_live say_goodbye:0.8 said_goodbye:0.8 last_words:0.7 eulogy
        gravestone grave:0.7 graveside flatlined obituary scattered_his scattered_her late_husband late_wife drowned
        perished fatal:0.8 deceased lost_our_son lost_our_daughter lost_a_friend:0.8 lost_my_best last_breath died_in
        bury:0.7 urn:0.5 inherited:0.4 death_certificate mourning wasn't_any_heartbeat no_heartbeat no_pulse
        switched_off_the_machine passed_peacefully
    """,
    "joy": """
        born:0.3 is_born were_born:0.7 born_today born_this born_last_night born_at:0.6 newborn gave_birth pregnant
        due_in:0.4 expecting_a:0.7 twins:0.8 engaged proposed:0.6 proposal:0.2
        marry~ married wedding:0.8 said_yes she_said_yes:1.5 he_said_yes:1.5 they_said_yes:1 honeymoon:0.7 adopt~:0.8
        adoption custody first_steps:1.3 first_word:0.9 first_words:0.9 he_walked:1.2 she_walked:1.2 walked_again:1.3
        all_clear:1.4 in_remission:1.4 remission:1.3 cancer-free:1.4 is_harmless:0.8 benign:0.9 no_sign_of:0.4
        came_home:0.5 woke_up_from:0.8 out_of_the_coma:1.3 we_did_it:0.9 i_did_it:0.9 we_won:0.8 i_won:0.9 won_the:0.7
        lottery:0.7 jackpot got_the_job:1.1 got_in:0.7 accepted_me:0.9 was_accepted:0.8 got_accepted offered_me:0.8
        promoted scholarship:0.8 graduat~:0.8 passed_my:0.8 passed_the_exam:0.9 i_passed:0.9 citizenship:0.9
        citizen:0.4 visa_came:0.8 visa_granted granted_asylum:1.2 asylum:0.8 published:0.4 publisher:0.6
        sold_my_first:0.9 first_gig:0.7 marathon:0.6 gold_medal:0.9 found_her:1.1 found_him:1.1 is_alive:1
        he's_alive:1 she's_alive:1 reunited:1.1 grandson:0.6 granddaughter:0.6 grandchild:0.7 heartbeat_on:0.8
        it's_a_girl:1.2 it's_a_boy:1.2 anniversary:0.4 paid_off_the:0.6 years_sober:1.1 days_sober:1 months_sober:1
        sober_for:1 not_smoked:0.5 dream_came:0.9 house_is_ours:1 got_the_keys:0.7 dream_job:0.9 moves_in_with:0.6
        my_birthday:0.3 birth:0.7 bride:0.5 groom:0.5 the_ring:0.4 down_on_one_knee:1.3 we're_having_a:0.8
        is_expecting:0.8 having_a_baby:1 sold_out:0.4 first_place:0.8 won_first:0.8 award:0.6 prize:0.6 admitted:0.3
        offer_accepted:0.8 they_took_me:0.8 they_hired_me:1 i_got_it:0.7 got_a_place:0.9 got_married:1.1
        out_of_hospital:0.9 out_of_danger:1.1 test_was_negative:1 negative:0.3 tumour_is_gone:1.3 cured:1
        recovered:0.7 survived:0.9 saved_my_life:1.2 saved_his:1 saved_her:1 paid_off:0.6 debt-free:0.8
        residence_permit:0.7 permanent_residency:0.9 home_at_last:1 first_day_of_school:0.7 first_home:0.8
        new_house:0.6 finish_line:0.6 world_record:0.8 sold_my:0.4 my_first_book:0.9 my_first_novel:0.9
    """,
    "bond": """
        divorce~ divorced separat~:0.6 broke_up broken_up split_up breakup break-up left_me left_him left_her
        leaving_him:1 leaving_her:1 moved_out:0.7 walked_out:0.7 cheat~ cheated affair:0.9 unfaithful lied_to_me
        lying_to:0.9 lied_to lie_to:0.6 betrayed don't_speak_to:0.8 not_spoken_to:0.8 stopped_speaking
        haven't_spoken:0.8 estranged fell_out:0.7 argument_with:0.6 fight_with:0.6 fought_with:0.6 my_ex:0.7
        ex-husband:0.8 ex-wife:0.8 told_my_parents i_told_her:0.5 i_told_him:0.5 came_out_to:0.8 came_out_as:0.9
        coming_out:0.5 secret:0.3 not_a_word:0.8 don't_tell:0.7 tell_no_one told_no_one:0.9 told_nobody:0.9
        never_told:1 first_to_know:0.9 confess~:0.8 promised_her:0.6 promised_him:0.6 marry_me:1 love_letter:0.7
        forgive_you forgive_me forgive_her forgive_him best_friend:0.7 we_were_going_to:0.5 look_for_her:0.5
        look_for_him:0.5 birth_mother:1 birth_father:1 real_father:1 real_mother:1 half-sister:0.9 half-brother:0.9
        stepp~:0.1 moved_away:0.5 empty_nest engagement_is_off:1.2 wedding_is_off:1.2 called_off_the:0.7 disowned:1.1
        threw_me_out:1.1 kicked_me_out:1.1 cut_off_contact:1 no_contact:0.7 restraining_order:1.1 made_up_with:0.8
        reconciled:1 got_back_together:1 moved_in_together:0.9 living_together:0.7 first_date:0.6 fell_in_love:1.2
        falling_for:0.8 in_love_with:1.1 not_my_real:0.9 not_my_father:1 dna_test:0.8 i've_been_lying:1.1
        the_truth:0.5 i_lied:1 came_clean:0.9 haven't_told:1 nobody_knows_that:0.9 between_us:0.5
        keep_it_to_yourself:0.8 trust_you:0.6 godparent:0.6 anniversary:0.3 ex:0.5 my_marriage:1.1 our_marriage:1.1
        my_ex-wife:0.9 has_another:0.6
    """,
    "career": """
        resign~ resigned handed_in_my:1.2 handed_in_*_notice:0.5 my_notice gave_notice quit_my:1 i_quit:1 fired_me:1
        got_fired:1 was_fired:1 been_fired:1 sacked laid_off let_me_go:0.8 redundan~:0.9 redundancy lost_my_job:1.2
        last_day_is:0.6 last_day:0.5 retire~:0.8 retirement:0.6 unemployed jobless no_job:0.6 new_job:0.9
        job_offer:0.9 promotion:0.7 insolvency:1.1 insolvent:1.1 bankrupt~:1.1 bankruptcy:1.1 closing_the_shop:0.9
        evict~:1 eviction:1 foreclosure:1 homeless:1.1 repossess~ debt:0.7 debts:0.7 in_debt:0.9 owe~:0.4
        failed_the:0.7 failed_my:0.9 i_failed:0.8 flunk~:0.7 expelled:0.9 dropped_out:0.8 thesis:0.6 dissertation:0.6
        degree:0.4 phd:0.6 exam:0.5 exams:0.5 finals:0.4 resit:0.6 interview:0.5 mortgage:0.7 sued suing:0.8
        lawsuit:0.8 court:0.7 lawyer:0.6 solicitor:0.6 police:0.6 arrested:1 prison:0.8 sentence~:0.1 deport~:1.1
        stepping_back:0.5 stepping_down:0.6 opening_the:0.3 my_own_business:0.8 impostor:0.3 bullied:0.9 harass~:0.8
        worked_here_for:0.5 notice_period:0.6 let_go:0.4 furlough~:0.8 pay_cut:0.8 raise:0.2 pay_rise:0.8 salary:0.5
        first_job:0.7 start_my_new:0.8 probation:0.5 startup:0.3 own_company:0.9 founded:0.5 sabbatical:0.7
        burnout_leave tenure:0.7 admission:0.3 university:0.4 enrol~:0.4 bailiff:1 rent:0.3 landlord:0.3 overdraft:0.6
        loan:0.5 savings:0.5 pension:0.5 inheritance:0.7 fined:0.6 convicted:1 testify:0.8 custody_hearing:0.9
        tribunal:0.7 disciplinary:0.9 written_warning:0.8 passed_over:0.8 demoted:0.9 licence:0.3 driving_test:0.6
        moving_to:0.6 emigrat~:0.9 relocat~:0.6
    """,
    "danger": """
        outage is_down:0.7 are_down:0.6 went_down:0.6 breach:1 breached:1 attackers:1.1 hacked hacker~:0.8 ransom~:1.1
        ransomware:1.1 leak~:0.6 leaked:0.8 stolen:0.7 stole:0.6 phishing:0.7 compromised:0.9 data_loss:1
        production_database:0.8 deleted_the:0.5 wiped:0.5 corrupt~:0.8 corrupted:0.8 lost_my:0.5 they_lost:0.6
        are_gone:0.6 is_gone:0.5 wrong_totals:0.8 wrong_amount:0.6 wrong_dose:1 overcharged:0.6 charged_twice:0.6
        regression:0.4 crash~:0.6 crashed:0.7 deadlock:0.5 root_cause:0.5 incident:0.5 rollback:0.5 roll_back:0.5
        rolled_back:0.5 going_back_to:0.3 restoring:0.6 hotfix:0.5 vulnerability:0.8 exploit~:0.6 injection:0.5
        fire:0.5 a_fire:0.8 on_fire:1 burnt:0.6 burned:0.6 burning:0.5 smoke:0.4 gas_on:1 gas_leak:1.2
        smell_of_gas:1.2 carbon_monoxide:1.2 explo~:0.8 exploded:0.9 flood~:0.8 burst_pipe:0.9 pipe_burst:0.9
        electrocut~ accident:0.9 crashed_into:1 car_crash:1.1 fell_from:0.9 fell_off:0.8 fell_down:0.5 injured:0.9
        injury:0.7 bleeding:0.9 unconscious:1.1 collaps~:1 ambulance:1.1 emergency:0.7 a_and_e:0.8 intensive_care:1.2
        icu:1.1 stroke:0.9 seizure:1.1 heart_attack:1.2 overdose:1.2 poison~:0.9 poisonous:0.9 choking:0.9
        not_breathing:1.3 missing:0.4 went_missing:1.1 break-in:1 broke_in:0.9 broke_into:0.8 burgl~:1 robbed:1
        mugged:1 attack~:0.6 knife:0.3 weapon:0.7 threat~:0.7 threatened:0.9 stalk~:1 evacuat~:1 recall~:0.3
        recalled:0.5 unsafe:0.8 dangerous:0.7 fraud:0.6 scam~:0.7 scammed:0.9 can't_live_alone:0.9 crisis:0.6
        never_mix:0.9 toxic:0.7 alarm:0.3 not_a_drill:0.9 customers_affected:0.8 silently:0.4 wrong_customer:0.8
        expired_certificate:0.6 runs_out:0.4 run_out_of:0.2 power_cut:0.5 data_leak:1 lost_data:0.9 customer_data:0.7
        leaked_key:0.9 api_key:0.4 rotated:0.4 sev1:0.9 p1:0.5 paged:0.6 escalation:0.5 failover:0.6 replica:0.3
        disk_full:0.7 out_of_disk:0.7 out_of_memory:0.5 5xx:0.5 error_rate:0.5 broken_build:0.4 deleted_production:1.1
        dropped_the_table:1 wrong_account:0.9 wrong_patient:1 duplicate_payments:0.8 double_charged:0.7 defect:0.6
        defective:0.7 brakes:0.6 brake:0.4 faulty:0.6 leaking:0.6 mould:0.4 asbestos:1 lightning:0.5 earthquake:1
        storm:0.4 hurricane:0.8 avalanche:1 wildfire:1 collision:0.9 ran_over:0.9 hit_by_a:1 knocked_down:0.7
        drowning:1 drowned:0.6 fainted:0.9 passed_out:0.8 swallowed:0.5 allergic_shock:1.2 lost_child:1 ran_away:0.7
        run_away:0.6 kidnapped:1 blackmail~:1 identity_theft:1 followed_me:0.7 gun:0.8 bomb:1 wallet:0.3
        passport_was:0.6 lost_passport:0.6 lifeboat:0.3 sank:0.6 sinking:0.6 recall_notice:0.6 do_not_drink:0.8
        contaminated:0.9 mistake:0.4 my_mistake:0.6 destroyed:0.6 burned_down:1.1 burnt_down:1.1 ruined:0.6
        totalled:0.7
    """,
    "health": """
        allergic allerg~ allergy anaphyla~:1.2 epipen:1.2 penicillin:1.1 diabet~ diabetic:1.1 diabetes:1.1 insulin:1.1
        epilep~ epilepsy epileptic asthma asthmatic inhaler coeliac celiac intoleran~:0.8 lactose:0.8 cancer:1.2
        tumour:1.2 tumor:1.2 chemo:1.2 chemotherapy:1.2 lump:0.9 cyst:0.8 biopsy:1.1 scan:0.7 mri:0.8 x-ray:0.6
        diagnos~ diagnosed:1.1 diagnosis:1 surgery surgeon operation:0.6 operated:0.9 transplant:1.1 transfusion~:1
        hospital ward:0.7 clinic:0.7 doctor:0.7 dr:0.5 gp:0.6 nurse:0.4 specialist:0.5 cardiolog~:0.9 oncolog~:1.2
        therap~:0.7 therapist:0.8 psychiatr~:0.9 antidepress~:1 medication:0.8 meds:0.8 tablet~:0.6 pill~:0.6 mg:0.7
        dose:0.7 dosage:0.8 prescri~:0.7 prescribed:0.8 prescription:0.7 blood_pressure:0.8 blood_test:0.8
        blood_type:1 blood_group:1 heart_condition:1.1 pacemaker:1.1 kidney~ dialysis:1.2 liver:0.6 migraine~:0.9
        chronic:0.9 arthritis:0.9 disabled:0.9 disability:0.9 wheelchair:1 crutches:0.7 deaf:1.1 hearing_aid:0.9
        blind:0.8 colour-blind:1.1 color-blind:1.1 colour_blind:1 dyslexi~:1 dyslexic:1 autis~:1 autistic:1.1 adhd:1.1
        ptsd:1.2 bipolar:1.2 anorexi~:1.2 eating_disorder:1.2 panic_attack~:1 sober:0.9 alcoholic:1 alcohol_free:0.7
        rehab:1.1 relaps~:1.1 addict~:1 hiv:1.2 dementia:1.1 alzheimer's:1.2 parkinson's:1.2 pregnan~ pregnancy
        due_at:0.5 midwife:0.8 ivf:1.1 baby's_due:0.8 fever:0.6 broke_my:0.6 broken_arm:0.8 broken_leg:0.8 sprain~:0.5
        stitches:0.5 concussion:0.9 dentist:0.3 crisis_line:0.8 care_home:0.8 symptom~:0.5 infection:0.6 shoulder:0.2
        stiff:0.2 physio:0.5 side_effect~:0.7 vaccin~:0.4 donor:0.8 can't_eat:0.7 don't_eat:0.5 test_results:0.8
        peanut~:0.7 nut_allergy:1.1 nuts:0.3 bee_stings:0.8 hives:0.7 gluten:0.8 gluten-free:0.8 blood_thinner~:1.1
        warfarin:1.1 heart:0.3 heart_surgery:1.2 ultrasound:0.8 mammogram:0.8 screening:0.4 metast~:1.2 stage_four:1.2
        stage_two:1.1 lumpectomy mastectomy:1.2 hip_replacement:1 knee:0.3 slipped_disc:0.8 torn_ligament:0.8
        fracture~:0.8 broken_wrist:0.8 broken_hip:0.9 plaster:0.3 insomnia:0.8 anxiety_disorder:1.1 ocd:1
        schizophreni~:1.2 counselling:0.8 counselor:0.7 counsellor:0.8 multiple_sclerosis:1.2 ms:0.2 lupus:1.1
        crohn's:1.1 endometriosis:1.1 thyroid:0.9 anaemia:0.8 cholesterol:0.7 hypertension:0.9 infusion:0.8
        antibiotic~:0.7 painkillers:0.7 ibuprofen:0.6 vomit~:0.6 dizzy:0.6 faint:0.5 hearing:0.3 tinnitus:0.8
        prosthe~:1 stammer~:0.8 stutter~:0.8 iud:0.8 contraception:0.7 menopause:0.8 sterile:0.5 infertil~:1.1
        bleeding:0.3 heart_murmur:1 puls:0.2 resting_pulse:0.4 bone_marrow:1.1 leukaemia:1.2 leukemia:1.2 lymphoma:1.2
        hypoglyc~:1.1 blood_sugar:0.9 units_of:0.4 clean_for:0.9 no_alcohol:0.8 my_back:0.5 my_knee:0.6 bad_knee:0.6
    """,
    "identity": """
        my_name_is:0.9 name_is:0.4 i_was_born:1 born_in:0.6 i_grew_up:1 grew_up:0.6 i'm_from:0.8 i_am_from:0.8
        come_from:0.5 i_came_here:1 moved_here:0.7 refugee:1 immigrant:0.9 mother_tongue:0.9 native_language:0.9
        bilingual:0.8 first_language:0.8 i_speak:0.5 nationality:0.7 passport:0.3 i_work_as:0.8 i_work_at:0.7
        i_work_for:0.7 i_work:0.3 i've_worked:0.6 by_trade:0.8 i_am_a:0.6 i'm_a:0.6 i'm_an:0.6 i_am_an:0.6
        i've_been_a:0.9 i'm_the:0.3 i_run_a:0.6 i_study:0.7 i_teach:0.7 i_live_in:0.7 i_live_with:0.8 i_live:0.5
        i'm_gay:1.2 gay:0.8 lesbian:1 bisexual:1 queer:0.8 trans:1 transgender:1.1 non-binary:1.1 pronouns:1
        old_name:0.8 deadname:1.1 call_me:0.7 religio~:0.8 faith:0.8 god:0.4 church:0.4 pray~:0.6 mosque:0.6
        synagogue:0.7 temple:0.3 muslim:1 jewish:1 christian:0.8 catholic:0.8 hindu:1 buddhist:1 sikh:1 atheist:0.9
        ramadan:0.9 fasting:0.8 kosher:0.9 halal:0.9 sabbath:0.8 lent:0.3 vegan:0.9 vegetarian:0.8 veteran:0.7
        single_mother:1 single_father:1 single_parent:1 i'm_married:0.9 i_was_adopted:1.2 was_adopted:1.1 foster~:0.7
        my_whole_life:0.8 all_my_life:0.8 since_childhood:0.7 as_a_child:0.6 when_i_was:0.6 years_old:0.5
        i'm_turning:0.5 turned_forty:0.6 turned_fifty:0.6 i_believe:0.5 meaning_of:0.3 who_i_am:1 my_roots:0.9
        my_people:0.7 i_don't_drink:0.8 don't_drink:0.6 left-handed:0.7 emergency_contact:1 next_of_kin:1
        my_address:0.7 lives_at:0.4 my_will:0.9 power_of_attorney:1 organ_donor:1 consent:0.7 my_name:0.7
        named_after:0.6 my_real_name:0.9 born_and_raised:1 i_come_from:0.9 my_parents_came:0.8 from_a_family:0.7
        nickname:0.6 first_generation:0.8 my_culture:0.9 my_language:0.7 i_belong:0.8 where_i_belong:1 my_pronouns:1.1
        she/her they/them i_go_by:0.8 dual_citizen:0.8 i'm_deaf:0.9 i'm_blind:0.9 i'm_autistic:0.9 i'm_diabetic:0.7
        i'm_single:0.7 i'm_divorced:0.9 my_job_is:0.7 for_a_living:0.8 i'm_retired:0.8 years_as_a:0.7 i_served:0.8
        i_raised:0.9 i_have_two:0.5 i_have_three:0.5 have_two_children:0.8 father_of:0.8 mother_of:0.8
        stay_at_home:0.6 self-employed:0.7 i_fled:1.2 i_was_raised:1 orphanage:1 foster_care:1.1 pacifist:0.8
        quaker:0.9 mormon:0.9 orthodox:0.7 lutheran:0.7 baptis~:0.7 convert~:0.5 i_converted:1 my_faith:1
        pescatarian:0.8 night_owl:0.5 my_home:0.6 aspir~:0.4 my_dream:0.8 dream_of:0.5
    """,
    "near": """
        mum mom mummy mam mother mother's dad dad's mum's daddy father father's papa parents sister sister's brother
        brother's son:0.9 daughter daughter's son's wife wife's husband husband's partner:0.7 girlfriend boyfriend
        fiancé fiancée kid:0.6 kids:0.6 child:0.6 children:0.6 baby:0.7 baby's:0.7 boys:0.5 girls:0.4 gran grandma
        granny nan nana grandmother grandmother's grandpa grandad granddad grandfather grandfather's grandson
        granddaughter aunt:0.6 uncle:0.6 nephew:0.7 niece:0.7 cousin:0.6 in-laws:0.7 mother-in-law:0.8
        father-in-law:0.8 family:0.7 friend:0.5 friend's:0.4 best_friend my_cat:0.6 my_dog:0.7 our_dog:0.7 our_cat:0.6
        the_dog:0.3 the_cat:0.3 puppy:0.5 godmother:0.7 godson:0.7 goddaughter:0.7 stepfather:0.8 stepmother:0.8
        twins:0.5 toddler:0.6 mama stepson:0.7 stepdaughter:0.7 hubby:0.9 spouse:0.8 ex-wife:0.4 ex-husband:0.4
        granddad's nan's gran's grandma's grandpa's mama's papa's kids':0.6 brother-in-law:0.7 sister-in-law:0.7
        my_love:0.8 horse:0.2 my_horse:0.6 the_twins:0.4 mate:0.3 best_mate:0.9 flatmate:0.4 roommate:0.4
        neighbour:0.2
    """,
    "liking": """
        i_like:0.8 i_love:0.8 i_prefer prefer~:0.8 prefers:0.7 preferred:0.3 favourite:0.7 favorite:0.7 i_hate:0.8
        i_dislike can't_stand i_can't_bear i_enjoy:0.6 she_loves:0.7 he_loves:0.7 likes:0.5 rather_not:0.8 i'd_rather
        as_ever:0.3 no_sugar:0.5 i_always:0.8 i_never:0.8 i_usually:0.6 i_only:0.5 not_a_fan:0.8 don't_like:0.8
        my_style:0.5 write_to_me call_me:0.6 talk_to_me:0.8 answer_me:0.8 remind_me:0.8 please_don't:0.8 please_use
        please_put:0.7 please_keep:0.6 please_write:0.8 please_always please_never don't_send:0.8 don't_call:0.7
        don't_use:0.7 never_use:0.6 never_call:0.7 always_use:0.6 for_me:0.4 with_me:0.1 keep_it_short:0.7
        no_bullet:0.7 bullet_points:0.4 use_metric:0.7 metric_units:0.6 dark_mode:0.6 in_english:0.3 short_answers:0.7
        be_brief:0.6 when_you_write:0.6 from_now_on:0.4 keep_that_in_mind:0.4 window_seat:0.6 aisle_seat:0.6 decaf:0.4
        my_calendar:0.4 before_noon:0.3 after_six:0.2 in_my_calendar:0.5 on_weekdays:0.2 can't_bear:0.8
        allergic_to_small_talk:0.3 hates:0.5 loves:0.5 i_don't_eat:0.7 i_don't_drink:0.6 i_don't_like:0.9
        i_don't_want:0.7 i'd_like:0.5 i_want:0.5 i_take_my:0.7 my_coffee:0.5 tea:0.1 i_read:0.3 i_listen:0.4
        i_'d_rather:0.8 instead_of_calling:0.5 text_me:0.6 don't_phone:0.8 don't_ring:0.8 never_before:0.6
        after_ten:0.2 not_before:0.4 in_bullet:0.6 use_celsius:0.7 celsius_please:0.7 24-hour:0.5 first_name:0.5
        vous:0.2 informal:0.4 formal:0.3 no_emoji:0.7 without_emoji:0.7 plain_text:0.5 tabs:0.3 spaces:0.2 aisle:0.4
        spicy:0.4 not_too:0.3 my_type:0.5 guilty_pleasure:0.6 comfort_food:0.5 go-to:0.5
    """,
    "decision": """
        decided decision:0.8 decide:0.4 decides:0.3 agreed:0.9 we_agree:0.8 approved:0.8 approving:0.6 approve:0.4
        chose:0.7 chosen:0.6 settled_on we're_going_with we_go_with:0.9 going_with:0.8 we'll_go_with go_for:0.2
        resolved_to:0.7 voted:0.8 final:0.3 signed:0.8 signing:0.8 sign_the:0.7 sign:0.3 accepted:0.6 we_accept:0.9
        i_accept:0.9 rejected:0.5 decline~:0.5 turned_down:0.7 i_resigned resigned:0.8 handed_in:0.8 cancel~:0.5
        cancelled:0.7 canceled:0.7 i_quit i've_quit quit:0.4 give_up:0.3 giving_up:0.4 asked_for_a:0.6 filed:0.3
        i_file:0.9 file_for:0.9 withdraw~:0.8 i_withdraw i_consent:0.8 revoke~:0.8 i_object:0.7 hereby:0.3
        switch_to:0.5 switching_to:0.6 switched_to:0.5 migrate_to:0.6 moving_to:0.6 moves_in:0.7 move_out:0.5
        we_drop:0.7 drop_support:0.8 hire~:0.4 hired:0.6 we_hire:0.8 merged:0.3 ship_it:0.5 we_ship:0.7 roll_out:0.5
        rolling_out:0.5 freeze:0.4 code_freeze:0.9 takes_over:0.7 take_over:0.5 stepping_down:0.8 stepping_back:0.7
        i'm_leaving:0.8 i'm_opening:0.8 bought:0.3 sold:0.4 buying:0.3 no_more:0.4 no_exceptions:0.6 no_excuses:0.6
        that's_final we_stop:0.7 stopped_taking:0.5 i'm_putting:0.6 set_aside:0.3 aside_for:0.5 enrolled:0.7
        signed_up:0.8 applied_for:0.7 applied_to:0.6 booked:0.9 reserved:0.6 ordered:0.4 we've_chosen:0.9
        made_up_my_mind made_up_our_minds decision_is:0.9 conclusion:0.5 concluded:0.6 unanimous:0.8 unanimously:0.8
        board_approved:0.9 committed:0.5 confirmed:0.6 go-ahead:0.8 green_light:0.8 ruled_out:0.7 terminate~:0.6
        terminated:0.7 postponed:0.6 postpone~:0.5 rescheduled:0.6 moved_to:0.4 swap_to:0.4 drop_the:0.4 dropping:0.3
        scrap~:0.5 adopt_the:0.5 we_use:0.3 we're_using:0.4 standardise:0.6 standardize:0.6 we're_moving:0.6
        we're_leaving:0.7 i'm_quitting:1 i'm_done_with:0.7 putting_the_house:0.8 sell_the:0.6 selling_the:0.7
        put_an_offer:0.8 bought_the:0.6 bought_a_house:1 contract:0.6 lease:0.5 paid_the_deposit:0.8 deposit:0.4
        price_is:0.3 budget:0.3 from_january:0.6 effective:0.4 supersede:0 answer_is_no:0.9 answer_is_yes:0.9
        stays_no:0.6 new_price:0.5 new_date:0.6 new_address:0.5 was_dropped:0.5 we_do_not:0.5 we_don't:0.4
        said_yes:0.5 have_said_no:0.6
    """,
    "commitment": """
        i_promise promise:0.8 promised i_swear:0.7 swore:0.6 vow~:0.8 commit_to:0.8 committed_to:0.8 i'll:0.6
        i_will:0.7 we'll:0.5 we_will:0.7 i'm_going_to:0.7 we're_going_to:0.7 i_am_going_to:0.7 going_to:0.3
        i'm_telling:0.8 will_be:0.2 due:0.6 deadline:0.9 hand-in:0.8 deliver~:0.4 delivery:0.2 expires:0.4 starts:0.3
        appointment:0.8 interview:0.6 check-up:0.3 my_flight:0.6 flight:0.3 the_train:0.3 ferry:0.3 tickets:0.3
        see_the:0.3 meet_the:0.3 meeting:0.3 resit:0.6 next_goal:0.8 my_goal:0.8 goal:0.3 goal_is:0.7 plan_is:0.6
        i_plan:0.6 i'm_planning:0.6 aim_to:0.5 by_friday:0.3 by_monday:0.3 until_monday:0.1 no_later_than:0.8
        has_to_be:0.6 expects:0.3 owes:0.5 owe:0.5 guarantee~:0.5 in_writing:0.5 on_record:0.4 back_in:0.2
        check_again:0.6 follow_up:0.5 is_coming_at:0.4 comes_at:0.4 take_over_from:0.5 bring_the:0.3 bring_his:0.4
        bring_her:0.4 i'll_bring:0.6 promise_to:0.9 i_gave_my_word:1 my_word:0.7 count_on_me:0.8 i'll_be_there:0.8
        i'll_take:0.6 i'll_send:0.7 i'll_call:0.7 we'll_deliver:0.9 we_deliver:0.8 launch:0.5 launches:0.5 go_live:0.7
        goes_live:0.8 go-live:0.7 cutoff:0.6 cut-off:0.6 submission:0.6 submit~:0.5 renew~:0.4 renewal:0.5 departs:0.5
        departure:0.4 arrives:0.4 land_at:0.5 check-in:0.4 gate:0.2 rehearsal:0.4 hearing_is:0.6 surgery_is:0.7
        operation_is:0.7 wedding_is:0.6 funeral_is:0.6 exam_is:0.6 handover:0.6 pick_up_the:0.4 move_in:0.6
        moving_day:0.7 we_move:0.7 i_start:0.6 starts_on:0.6 begins_on:0.6 scheduled:0.6 scheduled_for:0.7
        training_for:0.6 saving_for:0.6 set_myself:0.6 my_plan:0.7 challenge:0.3 pay_back:0.6 pay_it_back:0.7
        transfer:0.4 remind:0.5 appointment_with:0.9 due_on:0.8 due_by:0.8 by_tomorrow:0.7 by_tuesday:0.6
        by_wednesday:0.6 by_thursday:0.6 by_sunday:0.5 end_of_day:0.6 eod:0.7 eta:0.4
    """,
    "duty": """
        must:0.8 mustn't:0.9 must_not:0.9 have_to:0.6 has_to:0.6 need_to:0.6 needs_to:0.5 we_need:0.7 i_need:0.5
        should:0.4 shouldn't:0.5 ought_to:0.5 never:0.4 always:0.3 don't:0.3 do_not:0.5 please:0.4 remind_me:0.9
        make_sure:0.8 be_sure:0.4 remember_to:0.6 don't_forget:0.5 only_if:0.4 at_most:0.4 at_least:0.2
        not_allowed:0.8 forbidden:0.7 not_permitted:0.7 no_one_may:0.8 may_not:0.7 is_required:0.6 required:0.3
        in_case_of:0.8 in_an_emergency:0.9 if_you:0.3 if_i:0.2 if_dad:0.5 if_mum:0.5 if_the:0.3 unless:0.3
        instead_of:0.1 use_the:0.2 keep_in_mind:0.5 keep_that_in_mind:0.6 ask_me:0.5 tell_me:0.2 tell_the:0.4
        let_me_know:0.4 send_it:0.5 ring_me:0.5 call_me_if:0.6 reply_to:0.4 come_at_once:1.2 come_home:0.5
        call_an_ambulance:1.2 help_me:0.6 ring_the_doctor:0.9 call_the_doctor:0.9 from_now_on:0.8 as_of_today:0.7
        from_this_month:0.6 with_immediate_effect:0.9 until_further_notice:0.7 rule:0.4 policy:0.4 the_rule_is:0.7
        clause:0.5 either_party:0.6 do_not_use:0.9 don't_touch:0.7 not_without:0.5 emergency_contact:0.9 has_a_key:0.5
        has_the_key:0.5 recovery_phrase:0.8 password:0.4 waits_until:0.5 on-call:0.3 escalate~:0.6 rotate_the:0.6
        back_up:0.4 keep_*_away:0.6 cannot:0.3 can't_be:0.3 has_to_be:0.7 needs_a:0.3 prohibited:0.8 at_all_times:0.6
        under_no_circumstances:1 no_one_else:0.4 nobody_may:0.8 only_the:0.2 only_after:0.5 only_with:0.5
        two_people:0.2 requires:0.6 mandatory:0.8 compulsory:0.7 obligation:0.7 obliged:0.7 liable:0.7 comply:0.7
        gdpr:0.6 consent:0.5 confidential:0.5 by_law:0.7 in_writing:0.5 agreement:0.4 contract_says:0.6 wear_a:0.4
        switch_off:0.5 turn_off:0.5 shut_off:0.6 cut_the_power:0.7 stop_valve:0.7 main_valve:0.7 fuse:0.4 call_112:1
        call_911:1 call_999:1 if_it:0.2 if_she:0.4 if_he:0.4 if_anything:0.7 if_something:0.6 in_that_case:0.3
        when_the_alarm:0.6 before_you:0.3 keep_the:0.3 lock_the:0.4 take_the:0.2 give_him:0.3 give_her:0.3
        spare_key:0.6 watch_out:0.6 beware:0.7 careful:0.4 caution:0.6 warning:0.5 not_suitable:0.4 max:0.3
        maximum:0.3 from_today:0.7 from_here_on:0.7 as_of:0.5 never_book:0.8 never_touch:0.7 never_on:0.5
        not_before:0.5
    """,
    "step": """
        todo:0.8 to-do:0.8 fix~:0.4 finish:0.5 review:0.5 reply:0.3 check:0.3 ring:0.2 buy:0.4 order:0.2 send:0.4
        update:0.3 write:0.2 call:0.2 book:0.2 pick_up:0.5 drop_off:0.5 homework:0.7 exercise:0.2 exercises:0.3
        agenda:0.4 action_item~:1 next_step~:0.9 steps:0.6 step:0.2 to_reset:0.9 to_install:0.9 to_open_the:0.6
        to_restart:0.9 to_make_a:0.6 how_to:0.4 hold:0.3 press:0.5 click:0.5 open:0.3 choose:0.4 select:0.4 type:0.2
        install:0.4 run:0.1 restart:0.5 unplug:0.5 wait_for:0.4 wait_until:0.5 then:0.2 first:0.1 boil~:0.4 stir:0.5
        simmer:0.5 bake:0.4 knead:0.5 oven:0.3 add_the:0.3 mix:0.3 pour:0.3 lid_on:0.4 prune:0.5 water_at:0.4
        water_the:0.4 sow:0.5 warm-up:0.6 reps:0.3 sets_of:0.3 expected:0.4 actual:0.3 seen_on:0.4 reproduce:0.6
        repro:0.5 bug:0.5 workaround:0.6 standing_order:0.6 invoice:0.4 nit:0.4 merge:0.3 deploy:0.5 release:0.3
        branch:0.2 some_time:0.3 reminder:0.4 confirm:0.3 save_your:0.3 ask_*_for:0.3 is_in_the:0.2 are_in_the:0.2
        password:0.4 wifi:0.5 code_is:0.5 pin_is:0.5 is_kept:0.4 key_is:0.5 recipe:0.3 grams:0.2 degrees:0.3
        minutes:0.2 preheat:0.6 chop:0.4 drain:0.3 serve:0.2 season:0.2 rinse:0.4 soak:0.4 first_,:0.1 fold:0.3
        glue:0.4 drill:0.3 screw:0.4 tighten:0.4 go_to:0.3 tap:0.3 paste:0.3 copy:0.2 enter:0.3 menu:0.2 settings:0.3
        delete:0.3 download:0.3 upload:0.3 export:0.3 log_in:0.4 reset:0.4 replace:0.4 clean_the:0.4 shopping_list:0.5
        list:0.2 ticket:0.3 refactor:0.4 test:0.2 commit:0.3 pr:0.4 pull_request:0.5 approve:0.3 schedule:0.3 plan:0.2
        prepare:0.4 print:0.2 pay:0.4 return:0.2 collect:0.3 meet:0.2 proposal:0.3 draft:0.2 feedback:0.3 backlog:0.4
        sprint:0.3 subscription:0.3 transfer:0.3 refund:0.4 receipt:0.2
    """,
    "surprise": """
        finally:0.7 at_last:0.7 for_once:0.6 first_time:0.7 never_thought:1 never_expected:1 didn't_think:0.8
        didn't_expect:0.9 don't_quite_believe:1 can't_believe:0.9 unexpected~:0.8 unexpectedly:0.8 out_of_nowhere:0.8
        out_of_the_blue:0.8 suddenly:0.7 turns_out:0.8 turned_out:0.7 it_turns_out:0.8 discovered:0.7 found_out:0.8
        i_found:0.3 surpris~:0.8 surprised:0.8 surprise:0.7 shock:0.6 weirdly:0.6 strange~:0.6 odd:0.4 oddly:0.5
        bizarre:0.7 unbelievable:0.7 incredible:0.5 the_whole_time:0.9 whole_time:0.7 all_along:0.3
        years_of_trying:0.8 after_*_years:0.6 after_all_these:0.8 against_all_odds:0.9 nobody_expected:0.8
        no_one_knew:0.7 nobody_knew:0.7 nobody_knows:0.3 of_all_people:0.7 backwards:0.4 by_accident:0.5 instead:0.2
        actually:0.1 apparently:0.3 ever_seen:0.7 record:0.3 breakthrough:0.9 announce~:0.4 for_the_first:0.6
        any_more:0.3 no_longer:0.5 not_any:0.2 never_seen:0.8 never_heard:0.7 never_happened:0.8 had_no_idea:0.8
        hadn't_known:0.8 i_didn't_know:0.8 wasn't_expecting:0.9 to_my_surprise:0.9 stumbled:0.6 who_knew:0.7
        guess_what:0.7 plot_twist:0.7 of_all_things:0.8 of_all_places:0.8 once_in_a_lifetime:1 first_ever:0.8
        first_in:0.4 rare:0.5 extinct:0.6 one_in_a:0.6 mystery:0.5 mysterious:0.6 inexplicabl~:0.8 unprecedented:1
        secretly:0.6 secret:0.5 hidden:0.4 has_been_lying:0.8 wasn't_what:0.5 after_years:0.7 decades:0.4 unlike:0.3
        contrary:0.6 except:0.1 reversed:0.4 reveals:0.5 revealed:0.6 found_a:0.3 woke_up_to:0.5 impossible:0.5
        no_one_has:0.4 nobody_has_ever:0.8 disproved:0.7 new_species:0.8
    """,
    "fiction": """
        chapter:0.5 novel:0.3 the_novel:0.8 protagonist my_character character:0.5 once_upon:1.2 plot:0.4
        the_scene:0.5 villain wizard sword:0.8 dragon:0.9 knight:0.7 dungeon:0.8 elf:0.7 goblin:0.8 vampire:0.8
        kingdom:0.5 the_robot:0.6 said_the:0.7 the_captain:0.5 in_the_film:1 in_the_movie:1 in_the_book:1
        in_the_novel:1 in_the_story:1 the_story:0.5 fan_fiction fanfic screenplay:0.8 npc roll_for:0.8 d20:0.9
        role-play roleplay in_character:0.9 episode:0.3 haiku:0.8 poem:0.5 spaceship:0.8 alien:0.7 pirate:0.6
        witch:0.7 she_whispered he_whispered the_king:0.6 the_queen:0.5 the_prince:0.7 the_princess:0.8 castle:0.4
        spell:0.4 potion:0.8 magic:0.4 curse:0.5 ghost:0.5 zombie:0.9 werewolf:1 superhero:0.9 galaxy:0.4 starship:0.9
        android:0.3 hero:0.4 heroine:0.6 narrator:0.9 backstory:0.9 sequel:0.6 draft_of_the_story:0.8 short_story:0.8
        stanza:0.8 verse:0.4 act_two:0.8 act_one:0.8 tavern:0.7 sorcerer:1 orc:0.9 troll:0.6 prophecy:0.7 throne:0.6
        campaign:0.2 my_lord:0.8 unsheathe~ gothic:0.4 detective:0.5 murderer:0.4 the_killer:0.6 season_two:0.5
        series_finale:0.8
    """,
    "joke": """
        joke:0.9 jokes:0.8 walks_into_a walk_into_a knock_knock punchline pun:0.7 why_did_the:0.9 what_do_you_call:1
        just_kidding:0.8 fun_fact:0.6 limerick lol:0.3 haha:0.4 riddle:0.8 what's_the_difference_between:0.8
        pun_intended why_don't:0.3 how_many_*_does_it_take what's_a:0.4 dad_joke:1 hilarious:0.4 kidding:0.6
        said_the_barman a_horse_walks rofl lmao:0.6 just_joking:0.8 stand-up:0.3 one-liner:0.9 punchlines knock-knock
    """,
    "game": """
        level:0.3 boss:0.4 guild:0.9 raid:0.6 raids:0.5 ranger:0.6 loot:1 xp:0.8 quest:0.7 respawn:1 ranked:0.6
        lobby:0.3 speedrun:1 minecraft coins:0.4 merchant:0.4 dungeon:0.6 mana:0.8 build:0.1 checkmate:0.5
        high_score:0.8 leaderboard:0.8 elo:0.7 respec patch:0.2 skin:0.1 spawn:0.7 dps:0.9 tank:0.2 healer:0.6
        achievement:0.5 unlocked:0.4 dlc:0.9 multiplayer:0.9 console:0.2 gamepad chess:0.5 blitz:0.4 gg:0.8 noob:0.9
        speed_run save_game:0.8 checkpoint:0.4 puzzle:0.3 crossword:0.4 sudoku:0.6 respawned platinum:0.3 sword:0.2
        potions:0.5 dungeons:0.5
    """,
    "others": """
        customer customers:0.7 client:0.9 clients:0.7 patient:0.5 caller:0.8 tenant:0.4 guest:0.5 applicant:0.7
        candidate:0.6 passenger:0.6 celebrity:0.9 actor:0.5 actress:0.5 minister:0.6 president:0.6 singer:0.5
        the_news:0.7 headline:0.6 colleague's:0.6 neighbour's:0.6 somebody's:0.6 someone's:0.6 a_stranger:0.5
        the_lady:0.5 the_man:0.3 a_woman:0.3 the_author:0.6 scientists:0.8 researchers:0.8 astronomers:0.8
        study_says:0.7 according_to:0.5
    """,
    "again": """
        again:0.5 as_ever as_always as_usual like_always same_as once_more still:0.4 reminder:0.5 every_day:0.4
        every_morning:0.4 as_before usual:0.6 same_old repeat~:0.5 another:0.2 daily:0.4 as_i_said:0.9
        as_mentioned:0.9 like_i_said:0.9 so_again:1 once_again:0.8 every_week:0.3 for_the_record:0.3 as_discussed:0.6
        see_above:0.7 ditto:0.9 repeating:0.7 as_yesterday:0.7 like_yesterday:0.7 no_change:0.7 nothing_new:0.8
        unchanged:0.6 weekly:0.3 monthly:0.3 routine:0.4 regular:0.2 never_changes:0.5 as_agreed:0.4 to_repeat:0.9
        copy_of:0.4 fyi_again
    """,
    "filler": """
        hello:0.6 hi:0.6 hey:0.5 good_morning good_evening:1 good_afternoon:1 good_night:1 night_night thanks:0.5
        thank_you:0.5 thx ok:0.6 okay:0.6 k lol:0.5 haha:0.6 sure:0.5 yes:0.3 yep:0.8 yeah:0.6 no_worries:1
        no_problem:1 you're_welcome welcome:0.4 bye:0.8 see_you:0.6 cheers:0.5 cool:0.5 wow:0.7 great:0.2
        sounds_good:0.9 got_it:0.7 how_are_you how's_it_going what's_up can_i_help:1 help_you_with:1 hmm um uh
        anyway:0.5 never_mind:0.8 no_idea:0.3 take_your_time:0.8 talk_tomorrow:0.9 talk_later:0.8 talk_soon:0.8
        here_is_the:0.5 you_asked_for:0.5 let's_go:0.5 gg:1 asdf test:0.3 testing:0.3 happy_to_help:1
        glad_i_could_help:1 how_can_i_help:1 anything_else:0.6 afternoon:0.1 greetings:0.8 howdy yo:0.5 sup yup:0.8
        nope:0.6 nah:0.6 alright:0.5 fine:0.2 nice:0.2 perfect:0.4 awesome:0.4 understood:0.6 noted:0.6 right:0.2
        so:0.1 well:0.2 brb:1 afk:1 ttyl:1 np:0.8 ty:0.8 pls:0.2 please_wait:0.6 one_moment:0.8 just_a_moment:0.8
        sorry:0.2 excuse_me:0.6 congrats:0.6 happy_birthday:0.4 have_a_nice:0.9 have_a_good:0.9 good_luck:0.6
        goodbye:0.7 later:0.1 any_questions:0.5 let_me_know_if:0.7 of_course:0.4 certainly:0.6 absolutely:0.3 blah:0.7
        lorem:1 qwerty:1 foo:0.6 as_requested:0.7 here's_the:0.3 here_you_go:0.8 testing_testing:1 mhm:1 hm:1 aha:0.8
        whatever:0.6
    """,
    "self": """
        i i'm i've i'd i'll me my mine myself we we're we've we'd we'll us our ours ourselves
    """,
    "when": """
        tomorrow tonight:0.9 today:0.3 monday:0.8 tuesday:0.8 wednesday:0.8 thursday:0.8 friday:0.8 saturday:0.8
        sunday:0.8 next_week:0.7 next_month:0.6 this_week:0.4 january:0.5 february:0.5 march:0.3 april:0.5 june:0.5
        july:0.5 august:0.5 september:0.5 october:0.5 november:0.5 december:0.5 in_spring:0.3 by_noon:0.8 at_nine:0.6
        at_ten:0.6 at_eleven:0.6 at_seven:0.6 at_eight:0.6 at_two:0.6 at_three:0.6 at_four:0.6 at_noon:0.7
        at_midnight:0.5 o'clock:0.6 in_two_weeks:0.6 in_an_hour:0.8 the_1st:0.7 payday:0.5 next_year:0.5
        the_end_of_the_month:0.7 end_of_may:0.6 end_of_june:0.6 by_then:0.3 at_once:0.6 immediately:0.5 by_five:0.6
        by_six:0.6 at_five:0.6 at_six:0.6 at_one:0.5 this_afternoon:0.5 this_evening:0.6 this_weekend:0.5
        next_spring:0.4 next_summer:0.4 half_past:0.5 quarter_past:0.5 quarter_to:0.5 in_a_week:0.6 in_three:0.3
        days_left:0.6 weeks_left:0.6 by_the_end:0.6 first_of:0.4 mid-may:0.5
    """,
}
