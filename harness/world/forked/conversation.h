// What a forked lane asks its server for, and what it is told: as JSON.
#pragma once

#include "harness/core/case.h"
#include "harness/process/child_group.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

// A request to play a case, and what became of its processes.
struct PlayRequest {
  Case c;
  std::string subject;
  std::string tier;  // "cold" or "warm"
  std::chrono::milliseconds limit{};
};
struct PlayReply {
  GroupReport group;
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind in its process
  int left_running = 0;  // processes that were still there when every rank had gone
};
std::string play_request(const PlayRequest& request);
PlayRequest play_request_in(const std::string& text);
std::string play_reply(const PlayReply& reply);
PlayReply play_reply_in(const std::string& text);

}  // namespace lockstep
