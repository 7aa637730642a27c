/* save FILE [synced]: replaces FILE by a new version, with a rename. Only the synced one is safe. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int sync_and_close(int fd, int is_synced) { return fd < 0 || (is_synced && fsync(fd) != 0) || close(fd) != 0; }

int main(int argc, char** argv) {
  const char text[] = "new notes\n";
  int is_synced = argc == 3 && strcmp(argv[2], "synced") == 0;
  int fd = open("save.tmp", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (argc < 2 || write(fd, text, sizeof text - 1) != sizeof text - 1) return 1;
  if (sync_and_close(fd, is_synced) || rename("save.tmp", argv[1]) != 0) return 1;
  return sync_and_close(open(".", O_RDONLY | O_DIRECTORY), is_synced);
}
