#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Expands Slurm's short forms. Local; without torch; throw UsageError that quotes the text. Source:
// the environment variables of srun(1), hostlists of scontrol(1).

// The hosts of a list such as "a1,b[03-05,9]x" in its order: a1, b03x, b04x, b05x and b9x. A name
// may have several brackets; the last one counts fastest.
std::vector<std::string> hosts_of(const std::string& host_list);

// The tasks of each host, from "4(x2),1": 4, 4 and 1.
std::vector<int> tasks_of_hosts(const std::string& text);

}  // namespace lockstep
