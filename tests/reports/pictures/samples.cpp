#include "tests/reports/pictures/samples.h"

#include <cmath>

namespace lockstep::reports {

Picture sample_grid() {
  return {.title = "samples by step",
          .caption = "10 of 10 samples are drawn, 1 twice",
          .body = Grid{.column_axis = "step",
                       .columns = {{"epoch 0", {"0", "1"}}, {"epoch 1", {"0", "1"}}},
                       .rows = {{{"one process", kReference}, {{"4 1"}, {"7 5"}, {"5"}, {"6 2"}}},
                                {rank_label(0), {{"4"}, {"7"}, {"5"}, {"6"}}},
                                {rank_label(1), {{"1"}, {"5"}, {"5", Mark::repeated}, {"2"}}}}},
          .key = {{Mark::repeated, "drawn before in this epoch"}}};
}

Picture sample_bars() {
  return {.title = "gradients",
          .caption = "the average of averages is 4, one process has 3",
          .body = Bars{.value_axis = "gradient",
                       .groups = {{"", {{{"one process", kReference}, 3, "3"}}},
                                  {"before", {{rank_label(0), -2, "-2"}, {rank_label(1), 6, "6"}}},
                                  {"after", {{rank_label(0), 4, "4", Mark::wrong}}}}},
          .key = {{Mark::wrong, "not what one process has"}}};
}

Picture sample_lines() {
  return {.title = "running_mean",
          .caption = "rank 1 returns to rank 0's value",
          .body = Lines{.column_axis = "moment",
                        .value_axis = "running_mean",
                        .columns = {"0", "1", "2", "3"},
                        .series = {{{"one process", kReference}, {0, 0.25, 0.25, 0.375}},
                                   {rank_label(0), {0, 0, 0, 0}},
                                   {rank_label(1), {0, 0.5, NAN, 0.5}}}}};
}

Picture sample_lanes() {
  using Fill = Lanes::Fill;
  return {.title = "a backward",
          .caption = "rank 0 waits for 2 ms",
          .body = Lanes{
              .time_axis = "ms",
              .rows = {{{"one process", kReference}, {{"backward", {{0, 4, "b"}}}}},
                       {rank_label(0),
                        {{"backward", {{0, 2, "b"}, {2, 4, "a"}, {4, 6, "waits", Fill::dotted}}},
                         {"all-reduce", {{2, 3, "b", Fill::shaded}, {4, 6, "a", Fill::shaded}}}}}},
              .most = 8}};
}

}  // namespace lockstep::reports
