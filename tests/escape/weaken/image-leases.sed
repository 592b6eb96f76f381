# boxd's own thread waits for the holder of a lease on an image file.
# group: neighbours
# opens: lease-on-an-image
# file: boxd/image/image_file.c
s/O_RDONLY \| O_NONBLOCK \| O_CLOEXEC/O_RDONLY | O_CLOEXEC/
