// Reads the records of one rank, one after the other, into its history.
#pragma once

#include "harness/history/bucket_matcher.h"
#include "harness/history/frames.h"

#include <functional>
#include <map>
#include <string>

namespace lockstep {

// Gives `take` each whole record and its number, in order, and keeps none; returns why reading
// stopped before the end, or "".
std::string for_each_frame(const std::byte* bytes, size_t size,
                           const std::function<void(Frame frame, size_t number)>& take);

// Throws FieldError, also for a phase that is too long to be kept with each event.
Moment moment_in(const Json& header, const std::string& where);

// Takes time and memory in proportion to the records. Names are made one line, and other texts
// legible, since they may come from a stranger.
class HistoryReader {
 public:
  // `whose` begins each refusal.
  explicit HistoryReader(std::string whose);

  // Throws FieldError for a record that no writer of this protocol makes.
  void take(const Frame& frame, size_t number);

  size_t event_count() const { return rank_.events.size(); }

  // A missing `ending` leaves Ending{cut_off}.
  RankHistory finish() { return std::move(rank_); }

 private:
  void take_issued(const Json& header, const std::string& where);
  void take_done(const Json& header, const std::string& where);
  void take_ending(const Json& header, const std::string& where);

  template <class What>
  void add(What what) {
    rank_.events.push_back({rank_.last, std::move(what)});
  }

  std::string whose_;
  RankHistory rank_;
  BucketMatcher buckets_;
  // By group and sequence number, the event of the collective that was issued last.
  std::map<std::string, std::map<int64_t, size_t>> issued_;
};

}  // namespace lockstep
