// Writes and reads what the processes of a campaign say of themselves.
#include "harness/cases/tier.h"
#include "harness/process/secret.h"
#include "harness/worlds/launched/remotes.h"

namespace lockstep {

namespace {

const std::string kRankZero = "the place of rank 0";

struct Proof {
  std::string proof;
  static constexpr auto fields() {
    return std::tuple{field("proof", &Proof::proof, line_up_to(256))};
  }
};

// Rank 0's first words to every process: those of another build may have another form.
std::pair<std::string, std::string_view> proof_and_place_in(std::string_view text) {
  try {
    const auto [line, place] = line_and_bytes(text, kRankZero);
    return {from_wire<Proof>(line, kRankZero).proof, place};
  } catch (const TierError& error) {
    throw TierError(std::string("the processes are not of one build of the program: ") +
                    error.what());
  }
}

std::string proof_of_place(const std::string& secret, std::string_view place) {
  return proof_for(secret, "rank 0\n" + std::string(place));
}

}  // namespace

std::string proof_for(const std::string& secret, const std::string& text) {
  return secret.empty() ? "" : proof_of(secret, text);
}

std::string text_of(const Handshake& handshake) {
  return to_wire(handshake);
}

Handshake handshake_in(const std::string& text) {
  return from_wire<Handshake>(text, "a handshake");
}

std::string text_of(const RankZero& rank_zero, const std::string& secret) {
  const auto place = to_wire(rank_zero);
  return with_bytes(to_wire(Proof{proof_of_place(secret, place)}), place);
}

RankZero rank_zero_in(const std::string& text, const std::string& secret) {
  const auto [proof, place] = proof_and_place_in(text);
  const std::string cure = ": give all processes of the campaign the same LOCKSTEP_SECRET";
  if (secret.empty() && !proof.empty())
    throw TierError("rank 0 has a LOCKSTEP_SECRET, and this process has none" + cure);
  if (!same_proof(proof, proof_of_place(secret, place)))
    throw TierError("rank 0 does not prove that it has the LOCKSTEP_SECRET of this process" + cure);
  return from_wire<RankZero>(place, kRankZero);
}

std::string text_of(const CampaignEnd& end) {
  return to_wire(end);
}

CampaignEnd campaign_end_in(const std::string& text) {
  return from_wire<CampaignEnd>(text, "the end of a campaign");
}

}  // namespace lockstep
