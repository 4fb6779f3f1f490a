#pragma once

// All of lockstep::ddp in one header: what a program that trains over several processes includes.

#include "ddp/batch_norm.h"
#include "ddp/bucket_plan.h"
#include "ddp/checkpoint.h"
#include "ddp/collectives.h"
#include "ddp/communication_hook.h"
#include "ddp/communication_hooks.h"
#include "ddp/convert_sync_batchnorm.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/distributed_sampler.h"
#include "ddp/errors.h"
#include "ddp/init.h"
#include "ddp/join.h"
#include "ddp/launcher_report.h"
#include "ddp/logging_data.h"
#include "ddp/options.h"
#include "ddp/outputs.h"
#include "ddp/random_split.h"
#include "ddp/spawn.h"
#include "ddp/sync_batch_norm.h"
#include "ddp/version.h"
