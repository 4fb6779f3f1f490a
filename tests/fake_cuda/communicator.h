#pragma once

#include "tests/fake_cuda/api.h"
#include "tests/fake_cuda/streams.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep::fake_cuda {

// A message of one operation to or from a peer.
struct Message {
  int peer = 0;
  char* data = nullptr;
  std::size_t bytes = 0;
};

// An operation on a communicator: what travels, and what is done when all has come. Both are called
// on the stream, when it gets there.
struct QueuedCall {
  std::string name;         // "ncclAllReduce"
  std::string fingerprint;  // equal on all ranks that mean the same operation
  std::function<void(std::vector<Message>& out, std::vector<Message>& in)> prepare;
  std::function<void()> finish;
  std::string fault;  // as faults.h has it; never, late, or async:
};

// A communicator of NCCL's: a socket to every other rank, and operations in the order in which they
// were issued, whatever their streams. One that cannot end, since a peer has gone or by a fault,
// keeps its stream until the communicator is aborted, as a kernel would that spins.
//
// A peer that has gone is reported as an asynchronous error, as over a network, or with
// LOCKSTEP_FAKE_CUDA_LINK=nvlink never.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(int rank, int size);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Meets the others: at once, or in a thread while state() says ncclInProgress.
  ncclResult_t connect(std::uint16_t port, const std::string& gpu, bool is_blocking, bool never);

  void put(Stream& stream, QueuedCall call);

  // The state that ncclCommGetAsyncError tells.
  ncclResult_t state() const { return state_; }

  // Ends what is under way, then lets go of the peers.
  void abort();
  // Waits for what was issued, and until every peer does the same, without end.
  void finalize();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }

 private:
  ncclResult_t connect_now(std::uint16_t port, const std::string& gpu, bool never);
  void run(const QueuedCall& call, std::uint64_t number);
  void deliver_late(const std::string& fingerprint, std::uint64_t number,
                    const std::vector<Message>& out);
  bool exchange(const std::string& fingerprint, std::uint64_t number, std::vector<Message> out,
                std::vector<Message> in);
  bool is_to_end() const;
  void spin();
  void wait_a_moment(std::unique_lock<std::mutex>& lock);

  const int rank_;
  const int size_;
  const std::string name_;
  std::vector<int> sockets_;
  std::atomic<ncclResult_t> state_{ncclSuccess};
  std::atomic<bool> is_aborted_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t issued_ = 0;
  std::uint64_t served_ = 0;
  bool is_connecting_ = false;
};

// The text of the last failure, for ncclGetLastError.
void set_last_error(const std::string& text);

ncclResult_t nccl_error_of(const std::string& name);

}  // namespace lockstep::fake_cuda
