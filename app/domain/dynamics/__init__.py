"""Models of memory strength: four forgetting models on one shared state, with every formula written once.

A profile (`spec`, `mnemex`, `cmm`, `memory_decay`; see `profiles.profile`) is a `Dynamics`: pure functions of a batch
of states and a moment. Decay is a function of time, never a loop over runs, so maintenance may run at any interval,
however late. This file imports nothing, because `app.domain.strength.importance` and the models import each other's
modules.

Columns of a row for all profiles together (`state.Row`); times are seconds since 1970, `timestamptz` in the database:

============== ========= ======= ========================================================================
column         type      new     meaning
============== ========= ======= ========================================================================
kind           smallint  0       index in `ingest.memory.KINDS`; 0 (episodic) until the kind is known
salience       real      0       0 to 1, from the caller or scored
multiplier     real      1       0 to 2; mnemex only
pace           real      1       factor on the age, from the categories; mnemex only
access_count   integer   0       uses, n; 0 means never used
created_at     time      now     acceptance (`occurred_at` if the policy decays from there)
accessed_at    time      created the later of creation and last use
anchored_at    time      created the moment at which `level`, `retrieval` and `stability` were calculated
level          double    0       starting value of decay, see below; 0 means full strength in every profile
retrieval      double    1       retrieval A_r at the anchor; memory_decay only
stability      double    0       stability s at the anchor; memory_decay only
============== ========= ======= ========================================================================

`level` by profile: *spec* ln S carried back to the last use, so that S(τ) = exp(level - rate · W(τ)), or S - 1 when
subtractive; *mnemex*, *cmm* ln of a factor that lasts until the next use (1 unless restored or converted);
*memory_decay* ln of storage, A_s, at the anchor. New rows are therefore identical under every profile.

No valid row contains NaN or an infinite moment. Salience, multiplier and pace are `real`, which excludes numbers so
close to 0 that a product of doubles would underflow and raise an error in PostgreSQL. Columns that a sweep re-anchors
are `double`, so that rounding errors don't accumulate over sweeps.
"""
