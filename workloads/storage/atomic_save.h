/* atomic_save: replaces a file's contents so that a crash leaves the old or the new ones, whole; and once it has
 * returned, the new ones. In the current directory only.
 *
 * Invariants: (1) the new bytes are durable before the name leads to them; (2) the name is durable before it returns.
 */
#ifndef CRASHCUT_ATOMIC_SAVE_H
#define CRASHCUT_ATOMIC_SAVE_H

#include <stddef.h>

typedef enum {
  kSaveRight,
  kSaveInPlace,         /* wrong: truncates, then writes */
  kSaveRenameOnly,      /* wrong: breaks (1) */
  kSaveNoDirectorySync, /* wrong: breaks (2) */
} SaveForm;

/* 0, or -1 and errno. */
int atomic_save(const char* name, const void* bytes, size_t length, SaveForm form);

#endif
