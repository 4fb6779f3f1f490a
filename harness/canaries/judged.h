// The scenarios of the canaries: small worlds that break one rule each.
#pragma once

#include "harness/cases/scenario.h"

namespace lockstep::canaries {

Scenario records_nothing();       // in any world
Scenario records_a_sum();         // where an average belongs
Scenario disagrees();             // about a value that is nobody's but the rank's
Scenario issues_another();        // collective on the last rank
Scenario returns_from_another();  // since both ranks' are dropped
Scenario leaves_behind();         // a collective that nobody waits for
Scenario throws_on_one();         // rank
Scenario waits_forever();         // on the last rank
Scenario is_corrupted();          // by a bit that an injection flips
Scenario is_never_struck();       // by the injection of its case
Scenario is_refused_by_one();     // rank
Scenario is_refused_by_all();     // ranks
Scenario is_beyond_its_claim();
Scenario has_no_such_label();
Scenario issues_a_collective();  // which its check refuses
Scenario fails_from_three();     // elements on
Scenario records_the_time();     // of the machine

}  // namespace lockstep::canaries
