SELECT - - 1, '
 2, secret FROM credentials --' FROM orders