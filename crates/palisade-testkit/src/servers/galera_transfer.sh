#!/bin/sh
# Hands a node of a cluster the position of another, by a file: both began with the same data.
role= address= gtid=
while [ $# -gt 1 ]; do
    case $1 in
    --role) role=$2 ;;
    --address) address=$2 ;;
    --gtid) gtid=$2 ;;
    esac
    shift
done
if [ "$role" = joiner ]; then
    file=$(mktemp -u "$PALISADE_TRANSFERS/transfer-XXXXXX")
    echo "ready 127.0.0.1:1/$file"
    while [ ! -s "$file" ]; do
        sleep 0.05
    done
    cat "$file"
else
    file=${address#*/}
    echo "$gtid" > "$file.part"
    mv "$file.part" "$file"
    echo "done ${gtid%% *}"
fi
