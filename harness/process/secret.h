// Random names, and the proof that another process has the same secret. No secret is ever sent.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// 128 random bits from the system, as 32 hexadecimal digits, which nobody can guess.
std::string fresh_token();

// HMAC-SHA256 (RFC 2104, FIPS 180-4) as 64 hexadecimal digits: only a process with the secret can
// compute it for a text that another process chose.
std::string proof_of(std::string_view secret, std::string_view text);

// True if two proofs are equal, in a time that does not depend on where they differ.
bool same_proof(std::string_view one, std::string_view other);

}  // namespace lockstep
