#include "train/parallel/process_group.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "tests/train/parallel/local_network.h"
#include "train/error.h"

namespace tapestry {
namespace {

TEST_CASE("all_gather() gives all processes their results in the order of their ranks") {
  for (std::size_t size = 1; size <= 9; ++size) {
    std::atomic<std::size_t> right = 0;
    test::run_processes(size, [&, size](ProcessGroup& group) {
      const auto results = group.all_gather(
          [&] { return std::string(group.rank() * 100, static_cast<char>('a' + group.rank())); });
      bool all = results.size() == size;
      for (std::size_t rank = 0; rank < results.size(); ++rank) {
        all = all && results[rank] == std::string(rank * 100, static_cast<char>('a' + rank));
      }
      if (all) ++right;
    });
    CHECK_MESSAGE(right == size, size);
  }
}

TEST_CASE("broadcast() gives all processes the result of rank 0") {
  std::atomic<int> asked = 0, right = 0;
  test::run_processes(5, [&](ProcessGroup& group) {
    const std::string answer = group.broadcast([&] {
      ++asked;
      return fmt::format("from {}", group.rank());
    });
    if (answer == "from 0") ++right;
  });
  CHECK(asked == 1);
  CHECK(right == 5);
}

TEST_CASE("work of on_rank_0() runs once, before the other processes continue") {
  std::atomic<int> done = 0, seen = 0;
  test::run_processes(5, [&](ProcessGroup& group) {
    group.on_rank_0([&] { ++done; });
    if (done == 1) ++seen;
  });
  CHECK(done == 1);
  CHECK(seen == 5);
}

TEST_CASE("any_process() is true in all processes if one of them passes true") {
  std::atomic<int> yes = 0;
  test::run_processes(5, [&](ProcessGroup& group) {
    if (group.any_process(group.rank() == 3)) ++yes;
    if (group.any_process(false)) yes += 100;
  });
  CHECK(yes == 5);
}

/// What a process of a group throws.
struct Thrown {
  std::string type, message, hint;
  int code = 0;
};

std::vector<Thrown> thrown_by(std::size_t size,
                              const std::function<void(ProcessGroup& group)>& process) {
  std::vector<Thrown> thrown(size);
  test::run_processes(size, [&](ProcessGroup& group) {
    Thrown& own = thrown[group.rank()];
    try {
      process(group);
    } catch (const kernels::Cancelled&) {
      own.type = "cancelled";
    } catch (const AnomalyError& error) {
      own = {.type = "anomaly", .message = error.what(), .hint = ""};
    } catch (const UserError& error) {
      own = {.type = "error",
             .message = error.what(),
             .hint = error.hint(),
             .code = static_cast<int>(error.exit_code())};
    }
  });
  return thrown;
}

TEST_CASE("an error of one process is thrown in all, with its rank, its hint and its exit code") {
  const auto thrown = thrown_by(3, [](ProcessGroup& group) {
    group.together([&] {
      if (group.rank() == 1) throw OutputError("disk: full", "delete files");
    });
  });
  CHECK(thrown[1].message == "disk: full");
  for (const std::size_t rank : {0, 2}) {
    CHECK(thrown[rank].message.starts_with("rank 1 on "));
    CHECK(thrown[rank].message.ends_with(": disk: full"));
  }
  for (const Thrown& each : thrown) {
    CHECK(each.hint == "delete files");
    CHECK(each.code == 5);
  }
}

TEST_CASE("an error in one process abandons the transfers of all") {
  for (const bool all_transfer : {true, false}) {
    CAPTURE(all_transfer);
    std::atomic<int> abandoned = 0;
    const auto thrown = thrown_by(3, [&](ProcessGroup& group) {
      const auto work = [&]() -> std::string {
        if (group.rank() == 1) throw OutputError("disk: full", "delete files");
        return "";
      };
      if (group.rank() == 1 && !all_transfer) {
        group.all_gather(work);
      } else {
        group.all_gather(work, [&] { ++abandoned; });
      }
    });
    CHECK(abandoned == (all_transfer ? 3 : 0));
    for (const Thrown& each : thrown) CHECK(each.code == 5);
  }
}

TEST_CASE("messages of another program end all processes with an error") {
  test::LocalNetwork network(2);
  const std::array<std::byte, 24> other{};
  network.end(1).start_send(0, Transport::Channel::data, other);
  ProcessGroup group(network.end(0));
  CHECK_THROWS_WITH(group.together([] {}), "aborted with 2");
}

TEST_CASE("messages of another call end all processes with an error") {
  test::LocalNetwork network(2);
  const std::array<std::uint64_t, 3> header = {0x7461706573747202, 7, 0};
  network.end(1).start_send(0, Transport::Channel::data, std::as_bytes(std::span(header)));
  ProcessGroup group(network.end(0));
  CHECK_THROWS_WITH(group.together([] {}), "aborted with 9");
}

TEST_CASE("processes that call different functions end with an error that names them") {
  const auto thrown = thrown_by(3, [](ProcessGroup& group) {
    group.together([] {});
    if (group.rank() == 1) {
      group.any_process(true);
    } else {
      group.together([] {});
    }
  });
  for (const Thrown& each : thrown) {
    CHECK(
        each.message.starts_with("rank 1: found any_process as call 2 between the processes, "
                                 "expected together as on rank 0"));
    CHECK(each.code == 9);
  }
}

TEST_CASE("a process that returns while others continue ends all with an error") {
  for (const std::size_t first_to_end : {0, 1, 2}) {
    CAPTURE(first_to_end);
    std::atomic<int> thrown = 0, returned = 0;
    test::run_processes(3, [&](ProcessGroup& group) {
      try {
        returned += group.run([&] {
          group.together([] {});
          if (group.rank() != first_to_end) group.together([] {});
          return 0;
        });
      } catch (const PeerFailure& error) {
        const std::string text = error.what();
        if (group.is_rank_0() && text.find("the end of the program") != text.npos) ++thrown;
      }
    });
    CHECK(thrown == 1);     // which prints the error
    CHECK(returned == 18);  // twice 9
  }
}

TEST_CASE("a cancelled process cancels the work of all") {
  const auto thrown = thrown_by(4, [](ProcessGroup& group) {
    group.together([&] {
      if (group.rank() == 2) throw kernels::Cancelled();
    });
  });
  for (const Thrown& each : thrown) CHECK(each.type == "cancelled");
}

TEST_CASE("of several failures errors precede anomalies, and anomalies precede cancellation") {
  const auto two = [](bool error) {
    return thrown_by(3, [error](ProcessGroup& group) {
      group.together([&] {
        if (group.rank() == 0) throw kernels::Cancelled();
        if (group.rank() == 1) throw AnomalyError("nan");
        if (error) throw DataError("lost");
      });
    });
  };
  for (const Thrown& each : two(false)) CHECK(each.type == "anomaly");
  for (const Thrown& each : two(true)) CHECK(each.message.ends_with("lost"));
}

TEST_CASE("a process group remains usable after a cancelled exchange") {
  std::atomic<int> done = 0;
  test::run_processes(3, [&](ProcessGroup& group) {
    try {
      group.together([&] {
        if (group.rank() == 1) throw kernels::Cancelled();
      });
    } catch (const kernels::Cancelled&) {
      if (group.any_process(group.rank() == 2)) ++done;
    }
  });
  CHECK(done == 3);
}

TEST_CASE("a failure of the second process outside of an exchange ends all with its exit code") {
  std::atomic<int> thrown = 0, returned = 0;
  test::run_processes(3, [&](ProcessGroup& group) {
    try {
      const int code = group.run([&]() -> int {
        if (group.rank() == 1) throw DataError("lost");
        group.together([] {});
        group.together([] {});
        return 0;
      });
      returned += code;
    } catch (const UserError& error) {
      if (group.is_rank_0() && std::string(error.what()).starts_with("rank 1 on ")) ++thrown;
    }
  });
  CHECK(thrown == 1);    // which prints the error
  CHECK(returned == 6);  // twice 3
}

TEST_CASE("micro-batches are divided among processes without gaps and as evenly as possible") {
  for (std::size_t processes = 1; processes <= 9; ++processes) {
    for (std::size_t count = processes; count < 40; ++count) {
      std::size_t next = 0, least = count, most = 0;
      for (std::size_t rank = 0; rank < processes; ++rank) {
        const MicroBatches own = micro_batch_range(rank, processes, count);
        REQUIRE(own.begin == next);
        next = own.end;
        least = std::min(least, own.size());
        most = std::max(most, own.size());
      }
      CHECK(next == count);
      CHECK(most - least <= 1);
    }
  }
}

}  // namespace
}  // namespace tapestry
