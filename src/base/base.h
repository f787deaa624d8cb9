/* base.h - what every room uses without saying so: statuses and their messages, values freed by their scope, texts,
 * time, hashes, random numbers, the machine. Files, JSON, options and arenas are included by who uses them. */
#pragma once

#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/machine.h"
#include "base/owned.h"
#include "base/random.h"
#include "base/text.h"
