// Writes and reads the handshakes of a campaign's processes.
#include "harness/core/tier.h"
#include "harness/process/secret.h"
#include "harness/world/launched/remotes.h"
#include "harness/world/wire.h"

#include <limits>

namespace lockstep {

namespace {

constexpr size_t kLineMost = 256;
constexpr int kPortMost = 65535, kRanksMost = 65536;

// Names with texts, as program_of() makes them.
Json program_in(WireObject program) {
  constexpr size_t kNamesMost = 1u << 16;
  Json checked = Json::object();
  for (const char* const part : {"subjects", "scenarios"}) {
    WireObject names = program.object(part);
    checked[part] = Json::object();
    for (const auto& [name, value] : names.entries(kNamesMost).items())
      checked[part][name] = names.line(name.c_str(), kLineMost);
  }
  program.nothing_else();
  return checked;
}

}  // namespace

std::string proof_for(const std::string& secret, const std::string& text) {
  return secret.empty() ? "" : proof_of(secret, text);
}

std::string text_of(const Handshake& handshake) {
  Json devices = Json::object();
  for (const auto& [backend, seen] : handshake.devices) devices[backend] = json_of(seen);
  return Json{{"token", handshake.token},
              {"rank", handshake.rank},
              {"process", handshake.process},
              {"host", handshake.host},
              {"boot", handshake.boot},
              {"listens_on", handshake.listens_on},
              {"program", handshake.program},
              {"local_rank", handshake.local_rank ? Json(*handshake.local_rank) : Json()},
              {"devices", devices}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Handshake handshake_in(const std::string& text) {
  constexpr size_t kBackendsMost = 16;
  const std::string what = "a handshake";
  const Json json = wire_json(text, what);
  WireObject object(json, what);
  Handshake handshake{.token = object.line("token", kLineMost),
                      .rank = static_cast<int>(object.number("rank", 0, kRanksMost - 1)),
                      .process = object.number("process", 1, std::numeric_limits<pid_t>::max()),
                      .host = object.line("host", kLineMost),
                      .boot = object.line("boot", kLineMost),
                      .listens_on = object.address("listens_on"),
                      .program = program_in(object.object("program")),
                      .local_rank = {},
                      .devices = {}};
  if (object.has("local_rank") && !json.at("local_rank").is_null())
    handshake.local_rank = static_cast<int>(object.number("local_rank", 0, kRanksMost - 1));
  WireObject devices = object.object("devices");
  for (const auto& [backend, seen] : devices.entries(kBackendsMost).items())
    handshake.devices[backend] = seen_devices_in(devices.object(backend.c_str()));
  return handshake;
}

std::string text_of(const RankZero& rank_zero, const std::string& secret) {
  const Json where{
      {"address", rank_zero.address}, {"port", rank_zero.port}, {"token", rank_zero.token}};
  return proof_for(secret, "rank 0\n" + where.dump()) + "\n" + where.dump();
}

RankZero rank_zero_in(const std::string& text, const std::string& secret) {
  const std::string what = "the place of rank 0";
  const auto proof_end = text.find('\n');
  if (proof_end == std::string::npos) throw TierError(what + " has no proof");
  const auto where = text.substr(proof_end + 1);
  const auto proof = text.substr(0, proof_end);
  const std::string cure = ": give all processes of the campaign the same LOCKSTEP_SECRET";
  if (secret.empty() && !proof.empty())
    throw TierError("rank 0 has a LOCKSTEP_SECRET, and this process has none" + cure);
  if (!same_proof(proof, proof_for(secret, "rank 0\n" + where)))
    throw TierError("rank 0 does not prove that it has the LOCKSTEP_SECRET of this process" + cure);
  const Json json = wire_json(where, what);
  WireObject object(json, what);
  RankZero found{.address = object.address("address"),
                 .port = static_cast<int>(object.number("port", 1, kPortMost)),
                 .token = object.line("token", kLineMost),
                 .proof = proof};
  object.nothing_else();
  return found;
}

std::string text_of(const CampaignEnd& end) {
  return Json{{"is_whole", end.is_whole}, {"why", end.why}}.dump(-1, ' ', false,
                                                                 Json::error_handler_t::replace);
}

CampaignEnd campaign_end_in(const std::string& text) {
  const std::string what = "the end of a campaign";
  const Json json = wire_json(text, what);
  WireObject object(json, what);
  CampaignEnd end{.is_whole = object.flag("is_whole"),
                  .why = object.text("why", kSentenceBytesMost)};
  object.nothing_else();
  return end;
}

}  // namespace lockstep
