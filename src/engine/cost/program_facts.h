/* program_facts.h - sizes and costs of programs, as JSON. */
#pragma once

#include "base/json.h"
#include "program/classes.h"

/* A program's facts: rank, instructions, slots, flops and traffic_bytes of a step, bytes of each class, offload_bytes
 * (those in offload memory), sent_bytes of each kind of collective. New reference; NULL when out of memory. */
tri_json *tri__program_json(const tri_program *program);
/* The facts of each rank's program of a kind, [world]; bytes are those that the rank allocates: of each class of memory
 * the most that one of its programs, all [TRI_PROGRAMS], needs. */
tri_json *tri__programs_json(const tri_classes *all, tri_program_kind kind);
