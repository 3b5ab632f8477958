"""What does the network between two VMs really give me?"""
