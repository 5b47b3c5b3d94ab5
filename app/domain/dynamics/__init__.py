"""How a memory gains and loses strength: four models, one state, every formula written once.

A profile (`spec`, `mnemex`, `cmm`, `memory_decay`; see `profiles.profile`) is a `Dynamics`: pure functions of a batch
of states and a moment. Decay is a function of time, never a loop over runs, so it doesn't matter how often or how
late maintenance runs. Nothing is imported here, since `importance` and the models need one another's parts.

What a row needs, for all profiles together (`state.Row`); times are seconds since 1970, `timestamptz` in the database:

============== ========= ======= ========================================================================
column         type      new     meaning
============== ========= ======= ========================================================================
kind           smallint  0       place in `domain.memory.KINDS`; 0 (episodic) until it is known
salience       real      0       0 to 1, from the caller or scored
multiplier     real      1       0 to 2; mnemex alone
pace           real      1       how fast time counts, from the categories; mnemex alone
access_count   integer   0       uses, n; 0 means never used
created_at     time      now     acceptance (`occurred_at` where the policy decays from there)
accessed_at    time      created the later of creation and last use
anchored_at    time      created the moment for which `level`, `retrieval` and `stability` were worked out
level          double    0       what decay starts from, see below; 0 means full strength in every profile
retrieval      double    1       A_r at the anchor; memory_decay alone
stability      double    0       s at the anchor; memory_decay alone
============== ========= ======= ========================================================================

`level` by profile: *spec* ln S carried back to the last use, so that S(τ) = exp(level - rate · W(τ)), or S - 1
when subtractive; *mnemex*, *cmm* ln of a factor that lasts until the next use (1 unless restored or converted);
*memory_decay* ln A_s at the anchor. A new row is therefore the same under every profile.

No valid row holds NaN or an infinite moment. Salience, multiplier and pace are `real`: products of doubles nearer to 0
than a `real` can be would underflow, which PostgreSQL answers with an error. What a sweep anchors anew is `double`,
so that sweeps don't add up roundings.
"""
