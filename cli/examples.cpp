#include "cli/examples.h"

#include <map>

namespace lockstep::cli {

std::string examples_of(const std::string& command) {
  static const std::map<std::string, std::string> all{
      {"",
       "  lockstep record -- torchrun --nproc-per-node 2 train.py && lockstep judge recorded\n"
       "  lockstep run --subject python:mine.py\n"
       "  lockstep demo buffers\n"},
      {"run",
       "  lockstep run gradients --tier sim --seed 7\n"
       "  lockstep run --subject python:mine.py --junit junit.xml --html run.html\n"},
      {"replay",
       "  lockstep replay .lockstep/failures/FILE.json --subject pytorch --tier sim\n"
       "  lockstep replay .lockstep/failures/FILE.json --as-python > case.py\n"},
      {"demo",
       "  lockstep demo buffers --guess\n"
       "  lockstep demo hang --wrong one_too_many\n"
       "  lockstep demo all --html site\n"},
      {"judge",
       "  lockstep judge recorded --html judge.html\n"
       "  lockstep judge recorded --against one\n"},
      {"record", "  lockstep record --out one -- torchrun --nproc-per-node 1 train.py\n"},
      {"explain",
       "  lockstep explain gradients.match_single_process\n"
       "  lockstep explain \"unused parameter\"\n"},
      {"report", "  lockstep report shards/* --html run.html\n"},
  };
  const auto found = all.find(command);
  return found == all.end() ? "" : "Examples:\n" + found->second;
}

}  // namespace lockstep::cli
