// A family of scenarios describes its cases, from their values: in Python and in words. Every field
// of a value is written out; values whose field list other folders cannot see are read as JSON.
#pragma once

#include "scenarios/standalone/python.h"

namespace lockstep::scenarios::standalone {

struct Family {
  const char* scenario;
  // Throws NotWritten. Null: its cases are said in words alone.
  Python (*python)(const Json& value);
  std::string (*in_words)(const Json& value);
};
using Families = std::vector<Family>;

Families accumulation();
Families buffers();
Families described();
Families errors();
Families evaluation();
Families joins();
Families loops();
Families norms();
Families programs();
Families replicas();
Families samplers();
Families trainings();

}  // namespace lockstep::scenarios::standalone
