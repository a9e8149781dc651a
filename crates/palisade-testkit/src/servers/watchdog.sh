# Ends a server whose test process is gone. Arguments: signal, folder.
#
# Standard input is a pipe that only the test process holds open, so its end is the end of that
# process however it died: no parent's pid to poll, which the system may have given to another.
trap '' HUP INT TERM
signal=$1 folder=$2
remove() {
    rm -rf -- "$folder" 2>/dev/null || { sleep 1; rm -rf -- "$folder"; }
}
# First line: the server's process group. Without it the test died before the server was started.
if ! read -r group; then
    remove
    exit
fi
# Second line: the server was stopped and removed by its owner.
read -r _ && exit
kill -s "$signal" "$group" 2>/dev/null
waited=0
while kill -0 "$group" 2>/dev/null && [ "$waited" -lt 50 ]; do
    sleep 0.1
    waited=$((waited + 1))
done
kill -s KILL -- "-$group" 2>/dev/null
remove
